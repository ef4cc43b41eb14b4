import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Injectable,
  Module,
  Post,
  Scope,
  UseInterceptors,
  type DynamicModule,
  type INestApplication,
  type NestInterceptor,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { ExpressAdapter, FileInterceptor } from '@nestjs/platform-express';
import { Test } from '@nestjs/testing';
import {
  IdempotencyModule,
  Idempotent,
  IdempotencyOptionsError,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { IdempotencyTestingModule } from 'nestjs-idempotency/testing';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import {
  CircuitBreaker,
  ResilienceContext,
  ResilienceModule,
} from '../../../support/nest/resilience.js';
import { declared } from '../support/declared.js';

@Injectable()
class Logging implements NestInterceptor {
  intercept(_: unknown, next: { handle: () => any }) {
    return next.handle();
  }
}

@Module({ providers: [{ provide: APP_INTERCEPTOR, useClass: Logging }] })
class LoggingModule {}

const Guarded = declared('Guarded', [Controller()], {
  pay: [Post(), Idempotent(), CircuitBreaker('carrier')],
});
const Plain = declared('Plain', [Controller()], { pay: [Post('plain'), Idempotent()] });

@Module({ controllers: [Guarded] })
class GuardedModule {}

@Module({ controllers: [Plain] })
class PlainModule {}

interface Place {
  readonly isGlobal?: boolean;
  readonly isOutermost?: boolean;
}

const sync = (place: Place) => IdempotencyModule.forRoot({ store: memoryStore(), ...place });
const async = (place: Place) =>
  IdempotencyModule.forRootAsync({ useFactory: () => ({ store: memoryStore() }), ...place });

let app: INestApplication | undefined;
afterEach(async () => {
  await app?.close();
  app = undefined;
});

interface Started {
  readonly imports: (DynamicModule | Type)[];
  readonly controllers?: Type[];
  readonly providers?: Provider[];
  readonly interceptors?: NestInterceptor[];
}

/** Starts, and returns the lines of the library but those of memory stores and signals. */
async function said({ imports, controllers = [Guarded, Plain], ...more }: Started) {
  const { providers = [], interceptors = [] } = more;
  const logger = new LoggedLines();
  const module = await Test.createTestingModule({ imports, controllers, providers })
    .setLogger(logger)
    .compile();
  app = module.createNestApplication(new ExpressAdapter(), { logger });
  app.useGlobalInterceptors(...interceptors);
  await app.init();
  return logger.own.filter((line) => /ResilienceModule|isOutermost|ResilienceContext/.test(line));
}

describe.each([
  ['forRoot', sync],
  ['forRootAsync', async],
])('the place of the interceptor, by %s', (_, idempotency) => {
  it('is said to be around the breaker where nothing is said of it', async () => {
    const lines = await said({ imports: [idempotency({}), ResilienceModule] });
    expect(lines).toEqual([expect.stringMatching(/^warn: .* on Guarded\.pay: .*isOutermost/)]);
    expect(lines[0]).toContain('[resilience_outside]');
  });

  it.each([
    ['false', { isOutermost: false }, Guarded],
    ['nothing, of a handler without its decorators', {}, Plain],
  ])('is not spoken of with %s', async (_said, place, controller) => {
    const imports = [idempotency(place), ResilienceModule];
    expect(await said({ imports, controllers: [controller] })).toEqual([]);
  });

  it('is outermost of modules that are imported later, and of useGlobalInterceptors()', async () => {
    const imports = [idempotency({ isOutermost: true }), ResilienceModule, LoggingModule];
    expect(await said({ imports, interceptors: [new Logging()] })).toEqual([]);
  });

  it('is outermost of a request-scoped interceptor of the root module', async () => {
    const provide = { provide: APP_INTERCEPTOR, useClass: Logging, scope: Scope.REQUEST };
    const imports = [idempotency({ isOutermost: true })];
    expect(await said({ imports, providers: [provide] })).toEqual([]);
  });

  it.each<[string, (own: DynamicModule) => Started]>([
    ['of an earlier module', (own) => ({ imports: [LoggingModule, own] })],
    [
      'of the root module',
      (own) => ({
        imports: [own],
        providers: [{ provide: APP_INTERCEPTOR, useClass: Logging }],
      }),
    ],
  ])('is said to be inside of an interceptor %s', async (_where, started) => {
    const lines = await said(started(idempotency({ isOutermost: true })));
    expect(lines).toEqual([expect.stringMatching(/^warn: .*still outside of it: Logging\./)]);
    expect(lines[0]).toContain('[interceptor_outside]');
  });

  it('is outermost in each of two modules', async () => {
    const own = { isGlobal: false, isOutermost: true };
    const modules = [GuardedModule, PlainModule].map((module) => ({
      module,
      imports: [idempotency(own)],
    }));
    expect(await said({ imports: [...modules, ResilienceModule], controllers: [] })).toEqual([]);
  });

  it('names an interceptor without a class', async () => {
    const anonymous = { intercept: (_c: unknown, next: any) => next.handle() };
    const lines = await said({
      imports: [idempotency({ isOutermost: true })],
      providers: [{ provide: APP_INTERCEPTOR, useValue: anonymous }],
    });
    expect(lines).toEqual([expect.stringContaining('outside of it: one without a class.')]);
  });

  it('stops the start where the resilience module is imported earlier', async () => {
    const starting = said({ imports: [ResilienceModule, idempotency({ isOutermost: true })] });
    await expect(starting).rejects.toBeInstanceOf(IdempotencyOptionsError);
    await expect(starting).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringMatching(/"isOutermost".*before ResilienceModule/),
    });
  });

  it.each(['false', 1, null, {}])('is rejected as %j', (given) => {
    expect(() => idempotency({ isOutermost: given as never })).toThrow(
      /"isOutermost" must be true or false/,
    );
  });

  it('stops the start where a form is parsed inside, and says what to do', async () => {
    const Forms = declared('Forms', [Controller()], {
      upload: [Post(), Idempotent(), UseInterceptors(FileInterceptor('file'))],
    });
    const started = (place: Place) => said({ imports: [idempotency(place)], controllers: [Forms] });
    expect(await started({})).toEqual([]);
    await expect(started({ isOutermost: true })).rejects.toThrow(
      /Forms\.upload .*"isOutermost".*middleware.*"fingerprint"/,
    );
  });
});

describe('the option "isOutermost"', () => {
  it('stands beside the factory', async () => {
    const options = { store: memoryStore(), isOutermost: true } as IdempotencyModuleOptions;
    const own = IdempotencyModule.forRootAsync({ useFactory: () => options });
    await expect(said({ imports: [own] })).rejects.toThrow(/Set it beside "useFactory"/);
  });

  it('of the application is taken by both modules for tests', async () => {
    const options = { isOutermost: true };
    for (const own of [
      IdempotencyTestingModule.inMemory(options),
      IdempotencyTestingModule.passThrough(options),
    ]) {
      expect(await said({ imports: [own, ResilienceModule] })).toEqual([]);
      await app?.close();
    }
  });
});

describe('a resilience module of another shape', () => {
  it('is reported: the signals are not linked', async () => {
    class Other {
      readonly signal = undefined;
    }
    Object.defineProperty(Other, 'name', { value: ResilienceContext.name });
    @Module({ providers: [Other] })
    class Changed {}
    Object.defineProperty(Changed, 'name', { value: ResilienceModule.name });
    const lines = await said({ imports: [sync({}), Changed] });
    expect(lines).toEqual([expect.stringMatching(/^warn: .*are not linked/)]);
  });
});
