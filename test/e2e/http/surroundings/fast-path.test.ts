import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import {
  Catch,
  Controller,
  HttpException,
  Next,
  Post,
  Res,
  StreamableFile,
  UseFilters,
  type ArgumentsHost,
  type CallHandler,
} from '@nestjs/common';
import { describe, expect, it, jest } from '@jest/globals';
import { currentIdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { defer, Observable } from 'rxjs';
import { Around } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions } from '../../../support/http/start-app.js';
import { IdempotencyInterceptor } from '../../../support/internals/nest.js';
import { useServer } from '../../../support/servers/use-server.js';
import { FaultyStore, heldReply } from '../../../support/stores/faulty-store.js';
import { Gate } from '../../../support/waiting/gate.js';
import { until } from '../../../support/waiting/until.js';

const requests = new AsyncLocalStorage<string>();

const passing = (next: CallHandler) => next.handle();

@Controller()
class PaymentsController {
  @Post('alone')
  @Idempotent()
  alone(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('declined')
  @Idempotent()
  async declined(@InScenario() scenario: Scenario) {
    throw new HttpException({ execution: await scenario.run() }, 402);
  }

  @Post('context')
  @Idempotent()
  async context(@InScenario() scenario: Scenario) {
    await scenario.run();
    return contextNow();
  }

  @Post('context-of-stream')
  @Idempotent()
  contextOfStream(@InScenario() scenario: Scenario) {
    return defer(async () => {
      await scenario.run();
      return contextNow();
    });
  }

  @Post('broken')
  @Idempotent()
  async broken(@InScenario() scenario: Scenario) {
    await scenario.run();
    const chunks = async function* () {
      yield 'half of ';
      await scenario.timeout.pass();
      throw new Error('planned');
    };
    return new StreamableFile(Readable.from(chunks()), { type: 'text/plain' });
  }

  @Post('inside')
  @Around(passing)
  @Idempotent()
  inside(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('outside')
  @Idempotent()
  @Around(passing)
  outside(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('switched-off')
  @Idempotent({ http: { fastPath: false } })
  switchedOff(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Catch()
class PassingFilter {
  catch(_: unknown, host: ArgumentsHost) {
    host.switchToHttp().getNext<() => void>()();
  }
}

/** Two handlers of each path, the first of which passes the request on. Only Express can. */
@Controller()
@Idempotent()
class PassingController {
  @Post('failed')
  @UseFilters(PassingFilter)
  fail() {
    throw new Error('not here');
  }

  @Post('failed')
  afterFailure(@InScenario() scenario: Scenario) {
    return withOperation(scenario);
  }

  @Post('called')
  async call(@Res({ passthrough: true }) _: unknown, @Next() next: () => void) {
    next();
    await new Promise(() => undefined);
  }

  @Post('called')
  afterCall(@InScenario() scenario: Scenario) {
    return withOperation(scenario);
  }
}

async function withOperation(scenario: Scenario) {
  await scenario.run();
  return { operation: currentIdempotencyContext()?.operation };
}

function contextNow() {
  return { key: currentIdempotencyContext()?.key, request: requests.getStore() };
}

/** Whether the streams of a first request, and of its replay, were subscribed to. */
async function streamsOf(path: string, scenario: Scenario) {
  const subscribed = jest.spyOn(Observable.prototype, 'subscribe');
  try {
    const first = await scenario.post(path);
    const isFirstStreamed = subscribed.mock.calls.length > 0;
    subscribed.mockClear();
    expectReplay(await scenario.post(path), first);
    expect(scenario.executions).toBe(1);
    return { first: isFirstStreamed, replay: subscribed.mock.calls.length > 0 };
  } finally {
    subscribed.mockRestore();
  }
}

const NONE = { first: false, replay: false };
const BOTH = { first: true, replay: true };

describe.each(platforms)('the fast path on %s', (platform) => {
  const start = (more: Pick<StartAppOptions, 'configure' | 'options'> = {}) =>
    startApp({
      platform,
      controllers: [PaymentsController],
      store: memoryStore(),
      options: { http: { fastPath: true } },
      ...more,
    });

  describe('where nothing else intercepts', () => {
    const app = useServer(() =>
      start({
        configure: (nest) =>
          nest.use((request: { headers: Record<string, string> }, _: unknown, next: () => void) => {
            requests.run(String(request.headers['x-scenario']), next);
          }),
      }),
    );

    it('runs the handler, and replays its response, without a stream', async () => {
      expect(await streamsOf('/alone', app.scenario())).toEqual(NONE);
    });

    it("keeps the handler's exception, without a stream", async () => {
      expect(await streamsOf('/declined', app.scenario())).toEqual(NONE);
    });

    it('rejects without a stream', async () => {
      const subscribed = jest.spyOn(Observable.prototype, 'subscribe');
      expectProblem(await app.scenario().post('/alone', { key: null }), 'key-missing');
      expect(subscribed).not.toHaveBeenCalled();
      subscribed.mockRestore();
    });

    it.each(['/context', '/context-of-stream'])(
      'runs the handler of %s in the context of its operation and its request',
      async (path) => {
        const scenario = app.scenario();
        const { json } = await scenario.post(path);
        expect(json).toEqual({ key: scenario.key, request: scenario.id });
      },
    );

    it('keeps no response whose source breaks', async () => {
      const scenario = app.scenario();
      await scenario.post('/broken').catch(() => undefined);
      const retry = await onceSettled(() => scenario.post('/broken'));
      // On Fastify nothing had been sent: the whole error took the place of the file.
      if (platform === 'fastify') expect(retry).toMatchObject({ status: 500, replayed: true });
      else expectProblem(retry, 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });

    it.each(['/inside', '/outside', '/switched-off'])('is not taken by %s', async (path) => {
      expect(await streamsOf(path, app.scenario())).toEqual(BOTH);
    });

    it('leaves each request to a tool that has wrapped intercept()', async () => {
      // As the tracing of Sentry does when the class is decorated.
      const traced = jest.spyOn(IdempotencyInterceptor.prototype, 'intercept');
      try {
        expect(await streamsOf('/alone', app.scenario())).toEqual(BOTH);
        expect(traced).toHaveBeenCalledTimes(2);
      } finally {
        traced.mockRestore();
      }
    });
  });

  describe('where middleware responds while the store is asked', () => {
    const store = new FaultyStore(memoryStore());
    const responses = new Map<string, () => void>();
    const app = useServer(() =>
      startApp({
        platform,
        controllers: [PaymentsController],
        store,
        options: { http: { fastPath: true } },
        configure: (nest) =>
          nest.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
            responses.set(String(request.headers['x-scenario']), () =>
              response.writeHead(504).end('too slow'),
            );
            next();
          }),
      }),
    );

    it('does not run the handler, and frees the key', async () => {
      const scenario = app.scenario();
      const gate = Gate.closed();
      store.next('begin', heldReply(gate));
      const late = scenario.start('POST', '/alone');
      await until(() => store.sentOf('begin').length > 0);
      responses.get(scenario.id)!();
      expect((await late.response).status).toBe(504);
      gate.open();
      await until(() => store.sentOf('release').length > 0);
      expect(scenario.executions).toBe(0);
      expect(await scenario.post('/alone')).toMatchObject({ status: 201, json: { execution: 1 } });
    });
  });

  describe('in an application with a global interceptor', () => {
    const app = useServer(() =>
      start({
        configure: (nest) => nest.useGlobalInterceptors({ intercept: (_, next) => passing(next) }),
      }),
    );

    it('is not taken', async () => {
      expect(await streamsOf('/alone', app.scenario())).toEqual(BOTH);
    });
  });

  describe('switched off for the module', () => {
    const app = useServer(() => start({ options: { http: { fastPath: false } } }));

    it('is not taken', async () => {
      expect(await streamsOf('/alone', app.scenario())).toEqual(BOTH);
    });
  });
});

describe.each([true, false])('a request that is passed on, with fastPath: %s', (fastPath) => {
  const app = useServer(() =>
    startApp({
      platform: 'express',
      controllers: [PassingController],
      store: memoryStore(),
      options: { http: { fastPath } },
    }),
  );

  it.each([
    ['/failed', 'PassingController.fail'],
    ['/called', 'PassingController.call'],
  ])('remains an operation of the first handler of %s', async (path, operation) => {
    const scenario = app.scenario();
    expect((await scenario.post(path)).json).toEqual({ operation });
  });
});
