import {
  All,
  Controller,
  Get,
  Head,
  Module,
  Post,
  UseInterceptors,
  type CallHandler,
  type INestApplication,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ExpressAdapter,
  FileInterceptor,
  FilesInterceptor,
  NoFilesInterceptor,
  type NestExpressApplication,
} from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { json, raw, text } from 'express';
import {
  Idempotent,
  IdempotencyModule,
  IdempotencyOptionsError,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms, type Platform } from '../../support/http/combinations.js';
import { declared } from './support/declared.js';

interface Start {
  readonly platform?: Platform;
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
  readonly rawBody?: boolean;
  readonly bodyParser?: false;
  readonly configure?: (app: INestApplication) => unknown;
}

@Module({})
class AppModule {}

/** What the start of an application says: `undefined` where it did start. */
async function complaint(controller: Type, start: Start = {}): Promise<string | undefined> {
  const { platform = 'express', options, configure, ...settings } = start;
  const app = await NestFactory.create(
    {
      module: AppModule,
      imports: [IdempotencyModule.forRoot({ store: memoryStore(), ...options })],
      controllers: [controller],
    },
    platform === 'express' ? new ExpressAdapter() : new FastifyAdapter(),
    { logger: false, abortOnError: false, ...settings },
  );
  try {
    await configure?.(app);
    await app.init();
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  } finally {
    await app.close();
  }
}

class Passing implements NestInterceptor {
  intercept(_: unknown, next: CallHandler) {
    return next.handle();
  }
}

const parsing = UseInterceptors(FileInterceptor('file'));
const passing = UseInterceptors(Passing);

const payments = (name: string, options: object = {}) =>
  declared(name, [Controller()], { pay: [Post(), Idempotent(options)] });
const Payments = payments('Payments', { fingerprint: 'bytes' });

describe.each(platforms)("C32 fingerprint: 'bytes' on %s", (platform) => {
  it('does not start without raw bodies, and says where to turn them on', async () => {
    const message = await complaint(Payments, { platform });
    expect(message).toMatch(/option "fingerprint" of Payments\.pay is 'bytes'/);
    expect(message).toContain('{ rawBody: true }');
  });

  it('does not start without raw bodies where it is the default of all routes', async () => {
    const Plain = payments('Plain');
    const options = { fingerprint: 'bytes' } as const;
    expect(await complaint(Plain, { platform, options })).toContain('Plain.pay');
    expect(await complaint(Plain, { platform, options, rawBody: true })).toBeUndefined();
    expect(await complaint(Plain, { platform })).toBeUndefined();
  });

  it('does not start without raw bodies where the parser of JSON got a limit', async () => {
    const configure = (app: INestApplication) =>
      platform === 'express'
        ? (app as NestExpressApplication).useBodyParser('json', { limit: '10mb' })
        : (app as NestFastifyApplication).useBodyParser('application/json', { bodyLimit: 1e7 });
    expect(await complaint(Payments, { platform, configure })).toContain('{ rawBody: true }');
    expect(await complaint(Payments, { platform, configure, rawBody: true })).toBeUndefined();
  });

  it('starts with raw bodies', async () => {
    expect(await complaint(Payments, { platform, rawBody: true })).toBeUndefined();
  });

  it("starts without Nest's parsers: those of the application may keep raw bodies", async () => {
    expect(await complaint(Payments, { platform, bodyParser: false })).toBeUndefined();
  });

  it('starts with a parser of its own, which may keep raw bodies', async () => {
    const configure = (app: INestApplication) =>
      platform === 'express'
        ? app.use(json({ verify: (request, _, bytes) => Object.assign(request, { bytes }) }))
        : (app as NestFastifyApplication).useBodyParser(
            'application/json',
            {},
            (_request, body, done) => done(null, JSON.parse(String(body))),
          );
    expect(await complaint(Payments, { platform, configure })).toBeUndefined();
  });

  it.each([true, false])('knows raw bodies of a testing module: %s', async (rawBody) => {
    const testing = await Test.createTestingModule({
      imports: [IdempotencyModule.forRoot({ store: memoryStore() })],
      controllers: [Payments],
    }).compile();
    const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter();
    const app = testing.createNestApplication(adapter, { logger: false, rawBody });
    const starting = app.init().then(
      () => 'started',
      (error: unknown) => (error as Error).message,
    );
    expect(await starting).toMatch(rawBody ? /^started$/ : /\{ rawBody: true \}/);
    await app.close();
  });
});

describe("C32 fingerprint: 'bytes' on Express", () => {
  const type = 'application/json';
  const verify = (request: object, _: unknown, rawBody: Buffer) =>
    void Object.assign(request, { rawBody });

  it.each<[string, (app: NestExpressApplication) => unknown]>([
    ['of some paths that leaves bytes', (app) => app.use('/hooks', raw({ type }))],
    ['of text, which may keep bytes', (app) => app.use(text({ type, verify }))],
    ['that leaves bytes', (app) => app.useBodyParser('raw', { type })],
    ['of text', (app) => app.useBodyParser('text', { type })],
    [
      'that leaves bytes before that of JSON',
      (app) => app.useBodyParser('raw', { type }).useBodyParser('json'),
    ],
    ['of JSON that keeps bytes', (app) => app.useBodyParser('json', { verify } as object)],
  ])('starts with a parser %s', async (_, configure) => {
    const parsers = (app: INestApplication) => configure(app as NestExpressApplication);
    expect(await complaint(Payments, { configure: parsers })).toBeUndefined();
  });

  it.each<[string, (app: NestExpressApplication) => unknown]>([
    ['JSON', (app) => app.useBodyParser('json')],
    ['JSON, and then bytes', (app) => app.useBodyParser('json').useBodyParser('raw', { type })],
  ])('does not start without raw bodies where all that is parsed is %s', async (_, configure) => {
    const parsers = (app: INestApplication) => configure(app as NestExpressApplication);
    const start = { bodyParser: false, configure: parsers } as const;
    expect(await complaint(Payments, start)).toContain('{ rawBody: true }');
    expect(await complaint(Payments, { ...start, rawBody: true })).toBeUndefined();
  });
});

describe('a start that nothing would be compared after', () => {
  const bytes = { fingerprint: 'bytes' } as const;
  const uploads = (methods: Record<string, MethodDecorator[]>) =>
    declared('Uploads', [Controller()], methods);

  it.each([
    ['of the operation', { enabled: false }, {}],
    ['of the module', {}, { enabled: false }],
  ])('does not stop the start where "enabled" %s is false', async (_, ofOperation, options) => {
    const type = uploads({
      bytes: [Post('bytes'), Idempotent({ ...ofOperation, ...bytes })],
      form: [Post('form'), parsing, Idempotent(ofOperation)],
    });
    expect(await complaint(type, { options })).toBeUndefined();
  });

  it('does not stop the start on a route of a safe method', async () => {
    const type = uploads({
      list: [Get(), Idempotent(bytes)],
      look: [Head('form'), parsing, Idempotent()],
    });
    expect(await complaint(type)).toBeUndefined();
  });

  it.each([
    ['where a function decides', Post(), { enabled: () => false }],
    ['on a route of all methods', All(), {}],
  ])('stops the start %s', async (_, route, options) => {
    const type = uploads({ upload: [route, Idempotent({ ...options, ...bytes })] });
    expect(await complaint(type)).toContain('{ rawBody: true }');
  });
});

describe("C32 fingerprint: 'bytes' with a plugin of Fastify that keeps raw bodies", () => {
  it('starts', async () => {
    const configure = (app: INestApplication) =>
      (app as NestFastifyApplication)
        .getHttpAdapter()
        .getInstance()
        .decorateRequest('rawBody', null);
    expect(await complaint(Payments, { platform: 'fastify', configure })).toBeUndefined();
  });
});

/** A route with these decorators, on a class with those. */
const forms = (ofClass: ClassDecorator[], ...ofMethod: MethodDecorator[]) =>
  declared('Forms', [Controller(), ...ofClass], { upload: [Post(), ...ofMethod], list: [Get()] });

describe('C47 a form that is parsed inside of the interceptor', () => {
  it.each(platforms)('does not start on %s, and is told the remedy', async (platform) => {
    const message = await complaint(forms([], parsing, Idempotent()), { platform });
    expect(message).toMatch(/form of Forms\.upload is parsed inside of the layer/);
    expect(message).toMatch(/below @Idempotent\(\)/);
    expect(message).toMatch(/function as the option "fingerprint"/);
  });

  it.each([
    ['several files', FilesInterceptor('file')],
    ['fields alone', NoFilesInterceptor()],
    ['an interceptor of its own', class extends FileInterceptor('file') {}],
    ['an instance', new (FileInterceptor('file'))()],
  ])('does not start with %s', async (_, interceptor) => {
    const type = forms([], UseInterceptors(Passing, interceptor), Idempotent());
    expect(await complaint(type)).toContain('Forms.upload');
  });

  it('does not start with interceptors outside that parse nothing', async () => {
    const idempotent = Idempotent({ fingerprint: { exclude: ['note'] } });
    const type = forms([passing], parsing, idempotent, passing);
    expect(await complaint(type)).toContain('Forms.upload');
  });

  it.each([
    ['a function', () => 'the same'],
    ['nothing', false],
  ] as const)('starts where %s is compared', async (_, fingerprint) => {
    expect(await complaint(forms([], parsing, Idempotent({ fingerprint })))).toBeUndefined();
  });
});

describe('C47 a form that is parsed outside of the interceptor starts', () => {
  it.each([
    ['below @Idempotent()', forms([], passing, Idempotent(), parsing)],
    ['on the class', forms([parsing], passing, Idempotent())],
    ['on the method, where @Idempotent() stands on the class', forms([Idempotent()], parsing)],
    ['by middleware or by an unknown interceptor', forms([], passing, Idempotent())],
  ])('%s', async (_, type) => {
    expect(await complaint(type)).toBeUndefined();
  });
});
