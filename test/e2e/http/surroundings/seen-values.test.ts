import {
  Controller,
  Module,
  Post,
  Res,
  Scope,
  UseInterceptors,
  type CallHandler,
  type DynamicModule,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { describe, expect, it } from '@jest/globals';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { tap } from 'rxjs';
import { platforms, type Platform } from '../../../support/http/combinations.js';
import { expectReplay } from '../../../support/http/expectations.js';
import { routesOf } from '../../../support/http/routes-of.js';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario, scenarioOf } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

type AnyRequest = Parameters<typeof scenarioOf>[0];

const note = (request: AnyRequest, seen: unknown) => scenarioOf(request).notes.push(seen);

class Seeing implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<AnyRequest>();
    return next.handle().pipe(tap((value) => note(request, value)));
  }
}

@Controller()
class PlainController {
  @Post('value')
  @Idempotent()
  value(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller()
class SeenFromMethod {
  @Post('value')
  @Idempotent()
  @UseInterceptors(Seeing)
  value(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller()
@UseInterceptors(Seeing)
class SeenFromClass {
  @Post('value')
  @Idempotent()
  value(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Module({})
class ModuleOfApp {}

const seenFromApp = (scope: Scope): DynamicModule => ({
  module: ModuleOfApp,
  providers: [{ provide: APP_INTERCEPTOR, useClass: Seeing, scope }],
});

type Send = (this: object, body: unknown) => unknown;

/** As middleware does that logs bodies. */
const seeing = (request: AnyRequest, response: object, method: 'send' | 'json') => {
  const original = Reflect.get(response, method) as Send;
  const seen: Send = function (this: object, body) {
    note(request, body);
    return original.call(this, body);
  };
  Object.assign(response, { [method]: seen });
};

interface HookedFastify {
  addHook(name: 'onRequest', hook: (request: AnyRequest, reply: object) => Promise<void>): void;
  addHook(
    name: 'preSerialization',
    hook: (request: AnyRequest, reply: unknown, value: unknown) => Promise<unknown>,
  ): void;
}

const fastifyOf = (nest: INestApplication) => nest.getHttpAdapter().getInstance() as HookedFastify;

type Surroundings = Pick<StartAppOptions, 'imports' | 'configure'> & {
  readonly controller?: Type;
};

const EVERYWHERE: Record<string, Surroundings> = {
  'an interceptor of the method': { controller: SeenFromMethod },
  'an interceptor of the class': { controller: SeenFromClass },
  'a global interceptor': { configure: (nest) => nest.useGlobalInterceptors(new Seeing()) },
  'an interceptor of a module': { imports: [seenFromApp(Scope.DEFAULT)] },
  'a request-scoped interceptor of a module': { imports: [seenFromApp(Scope.REQUEST)] },
};

const ON: Record<Platform, Record<string, Surroundings>> = {
  express: Object.fromEntries(
    (['send', 'json'] as const).map((method): [string, Surroundings] => [
      `middleware with its own ${method}()`,
      {
        configure: (nest) =>
          nest.use((request: AnyRequest, response: object, next: () => void) => {
            seeing(request, response, method);
            next();
          }),
      },
    ]),
  ),
  fastify: {
    'a hook with its own send()': {
      configure: (nest) =>
        fastifyOf(nest).addHook('onRequest', async (request, reply) => {
          seeing(request, reply, 'send');
        }),
    },
    'a preSerialization hook': {
      configure: (nest) =>
        fastifyOf(nest).addHook('preSerialization', async (request, _reply, value) => {
          note(request, value);
          return value;
        }),
    },
  },
};

describe.each(platforms)('on %s, the value of a replay is seen by', (platform) => {
  describe.each(Object.entries({ ...EVERYWHERE, ...ON[platform] }))('%s', (_name, surroundings) => {
    const {
      controller = PlainController,
      imports = [],
      configure = () => undefined,
    } = surroundings;
    const app = useServer(() =>
      startApp({ platform, store: memoryStore(), controllers: [controller], imports, configure }),
    );

    it('as it sees that of the first response', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/value');
      expect(first).toMatchObject({ status: 201, replayed: false });
      const [value, ...others] = scenario.notes.splice(0);
      expect([value, others]).toEqual([expect.anything(), []]);
      expectReplay(await scenario.post('/value'), first);
      expect(scenario.notes).toEqual([value]);
    });
  });
});

/** Responses of which a platform would make something else, if it got their bytes as they are. */
@Controller('unseen')
class UnseenController {
  @Post('value')
  @Idempotent()
  value(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('spaced-json')
  @Idempotent()
  async spacedJson(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Content-Type', 'application/json');
    return `{ "execution" : ${await scenario.run()}.0 }`;
  }

  @Post('nothing-of-a-type')
  @Idempotent()
  async nothing(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.status(202).header('Content-Type', 'application/json');
    await scenario.run();
  }

  @Post('status-without-a-body')
  @Idempotent()
  async withoutBody(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.status(204).header('X-Own', 'kept');
    await scenario.run();
  }

  @Post('without-its-type')
  @Idempotent({ http: { replayHeaders: ['X-Own'] } })
  async withoutType(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('X-Own', 'kept');
    return scenario.response();
  }
}

describe.each(platforms)('on %s, a replay whose value nothing sees', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [UnseenController],
      configure: (nest) =>
        nest.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
          const prototype: unknown = Object.getPrototypeOf(response);
          response.once('finish', () => {
            const isPatched = Object.getPrototypeOf(response) !== prototype;
            note(request, isPatched ? 'patched' : 'not patched');
          });
          next();
        }),
    }),
  );

  const routes = routesOf(UnseenController).map((path) => `/unseen${path}`);

  it.each(routes.filter((path) => !path.endsWith('without-its-type')))(
    'is the first response of %s, and its response is not patched',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expectReplay(await scenario.post(path), first);
      expectReplay(await scenario.post(path), first);
      expect(scenario.notes).toEqual(['patched', 'not patched', 'not patched']);
      expect(scenario.executions).toBe(1);
    },
  );

  it('has no type if that was not stored', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/unseen/without-its-type');
    const replay = await scenario.post('/unseen/without-its-type');
    expect(replay).toMatchObject({ status: 201, replayed: true, text: first.text });
    expect([replay.all('content-type'), replay.all('x-own')]).toEqual([[], ['kept']]);
  });
});
