import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { afterAll, describe, expect, it, jest } from '@jest/globals';
import {
  type ArgumentsHost,
  BadRequestException,
  type CallHandler,
  Catch,
  Controller,
  type ExecutionContext,
  HttpException,
  Module,
  Next,
  Post,
  Res,
  StreamableFile,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { ExternalContextCreator, NestFactory } from '@nestjs/core';
import {
  currentIdempotencyContext,
  IdempotencyContext,
  IdempotencyEvents,
  Idempotent,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import {
  catchError,
  concat,
  concatMap,
  defer,
  delay,
  EMPTY,
  finalize,
  from,
  ignoreElements,
  lastValueFrom,
  map,
  Observable,
  of,
  retry as retrying,
  switchMap,
  takeUntil,
  tap,
  throwError,
  timer,
} from 'rxjs';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import type { Reply } from '../../../support/http/reply.js';
import { after, controllerOf, InjectsReply, respond } from '../../../support/http/routes-of.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions } from '../../../support/http/start-app.js';
import { IdempotencyInterceptor } from '../../../support/internals/nest.js';
import { useServer } from '../../../support/servers/use-server.js';
import { FaultyStore, heldReply } from '../../../support/stores/faulty-store.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { Gate } from '../../../support/waiting/gate.js';
import { until } from '../../../support/waiting/until.js';

const requests = new AsyncLocalStorage<string>();

const passing = (next: CallHandler) => next.handle();

const noted: string[] = [];

/** Hoisted: decorators of the routes call it. */
function noting(name: string): Around {
  return (next) => {
    noted.push(name);
    return next.handle();
  };
}

const declined = after((execution) => {
  throw new HttpException({ execution }, 402);
});

const PaymentsController = controllerOf('PaymentsController', {
  alone: [Idempotent(), respond],
  declined: [Idempotent(), declined],
  context: [Idempotent(), after(contextNow)],
  'context-of-stream': [
    Idempotent(),
    (scenario) =>
      defer(async () => {
        await scenario.run();
        return contextNow();
      }),
  ],
  broken: [
    Idempotent(),
    async (scenario) => {
      await scenario.run();
      const chunks = async function* () {
        yield 'half of ';
        await scenario.timeout.pass();
        throw new Error('planned');
      };
      return new StreamableFile(Readable.from(chunks()), { type: 'text/plain' });
    },
  ],
  inside: [Around(passing), Idempotent(), respond],
  outside: [Idempotent(), Around(passing), respond],
  'switched-off': [Idempotent({ http: { fastPath: false } }), respond],
  between: [Around(noting('inner')), Idempotent(), Around(noting('outer')), respond],
});

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

type Intercept = (this: unknown, ...args: any[]) => Promise<unknown>;

@Module({})
class EmptyModule {}

const bare = await NestFactory.createApplicationContext(EmptyModule, { logger: false });
/** Nest's class that calls the interceptors of a request. */
const prototype = Object.getPrototypeOf(
  Reflect.get(bare.get(ExternalContextCreator), 'interceptorsConsumer'),
) as { intercept: Intercept; transformDeferred: () => unknown };
/** As Nest declares it: no application of this file has started. */
const { intercept: ofNest } = prototype;
await bare.close();

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

    it.each([
      { path: '/outside', times: 0 },
      { path: '/inside', times: 2 },
      { path: '/between', times: 2 },
    ])("passes $times requests of $path through Nest's own streams", async ({ path, times }) => {
      const handlers = jest.spyOn(prototype, 'transformDeferred');
      try {
        await app.scenario().post(path);
        await app.scenario().post(path);
        expect(handlers).toHaveBeenCalledTimes(times);
      } finally {
        handlers.mockRestore();
      }
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

  describe('where another library has replaced the same method', () => {
    /** It looks as Nest's method does, and sees each request and its stream. */
    function wrapped(original: Intercept, name: string): Intercept {
      class Tracing {
        async intercept(
          this: unknown,
          interceptors: any,
          args: any,
          instance: any,
          callback: any,
          next: any,
          type: any,
        ) {
          noted.push(name);
          const given = [interceptors, args, instance, callback, next, type];
          const stream = (await original.apply(this, given)) as Observable<unknown>;
          return stream.pipe(map((value) => value));
        }
      }
      // eslint-disable-next-line @typescript-eslint/unbound-method -- It becomes a method again.
      return Tracing.prototype.intercept;
    }

    describe.each([
      { when: 'before', before: true, after: false },
      { when: 'after', before: false, after: true },
      { when: 'before and after', before: true, after: true },
    ])('$when this one', ({ before, after: later }) => {
      const app = useServer(async () => {
        prototype.intercept = ofNest;
        if (before) prototype.intercept = wrapped(ofNest, 'before');
        const started = await start();
        if (later) prototype.intercept = wrapped(prototype.intercept, 'after');
        return started;
      });
      afterAll(() => {
        prototype.intercept = ofNest;
      });

      const wrappers = [...(later ? ['after'] : []), ...(before ? ['before'] : [])];

      it('is not taken: it sees each request, and its stream', async () => {
        noted.length = 0;
        expect(await streamsOf('/alone', app.scenario())).toEqual(BOTH);
        expect(noted).toEqual([...wrappers, ...wrappers]);
      });

      it("runs each interceptor once, in Nest's order", async () => {
        const scenario = app.scenario();
        noted.length = 0;
        const first = await scenario.post('/between');
        expect(noted).toEqual([...wrappers, 'outer', 'inner']);
        noted.length = 0;
        expectReplay(await scenario.post('/between'), first);
        expect(noted).toEqual([...wrappers, 'outer']);
        expect(scenario.executions).toBe(1);
      });

      it('is taken again after the other library has taken its wrapper away', async () => {
        const current = prototype.intercept;
        prototype.intercept = ofNest;
        const restarted = await start();
        try {
          expect(await streamsOf('/alone', restarted.scenario())).toEqual(NONE);
        } finally {
          await restarted.close();
          prototype.intercept = current;
        }
      });
    });
  });

  describe('switched off for the module', () => {
    const app = useServer(() => start({ options: { http: { fastPath: false } } }));

    it('is not taken', async () => {
      expect(await streamsOf('/alone', app.scenario())).toEqual(BOTH);
    });
  });
});

/** Does something with Node's response when the handler's value, or that of a replay, has arrived. */
function withResponse(act: (response: ServerResponse) => void) {
  return UseInterceptors({
    intercept: (context: ExecutionContext, next: CallHandler) => {
      const reply = context.switchToHttp().getResponse<ServerResponse & { raw?: ServerResponse }>();
      return next.handle().pipe(
        tap(() => {
          act(reply.raw ?? reply);
        }),
      );
    },
  });
}

/** Of an interceptor outside of all others: what it asks for runs in it. */
const surrounding = new AsyncLocalStorage<string>();

/** A file that nobody gets: whether it was closed. */
const files: Readable[] = [];

const Outer = controllerOf('OuterController', {
  throws: [
    Idempotent(),
    Around(() => {
      throw new HttpException('planned', 418);
    }),
    respond,
  ],
  asynchronous: [
    Idempotent(),
    Around((async (next: CallHandler) => {
      await Promise.resolve();
      return next.handle();
    }) as unknown as Around),
    respond,
  ],
  rejects: [
    Idempotent(),
    Around((() => Promise.reject(new HttpException('planned', 418))) as unknown as Around),
    respond,
  ],
  nothing: [Idempotent(), Around((() => undefined) as unknown as Around), respond],
  'no-stream': [Idempotent(), Around((async () => ({ paid: true })) as unknown as Around), respond],
  'forgets-to-return': [
    Idempotent(),
    Around((async (next: CallHandler) => {
      await lastValueFrom(next.handle());
    }) as unknown as Around),
    respond,
  ],
  'inner-throws': [
    Idempotent(),
    Around(() => {
      throw new HttpException('planned', 418);
    }),
    Around((next) => next.handle().pipe(catchError(() => of({ caught: true })))),
    respond,
  ],
  ordered: [
    Idempotent(),
    Around(noting('third')),
    Around((async (next: CallHandler) => {
      noted.push('second');
      await Promise.resolve();
      return next.handle();
    }) as unknown as Around),
    Around(noting('first')),
    respond,
  ],
  surrounded: [
    Idempotent(),
    Around((next) => {
      noted.push(surrounding.getStore() ?? 'none');
      return next.handle();
    }),
    Around((next) => surrounding.run('outer', () => next.handle())),
    respond,
  ],
  twice: [
    Idempotent(),
    Around((next) => next.handle().pipe(concatMap(() => next.handle()))),
    respond,
  ],
  retried: [
    Idempotent({ outcome: { keep: () => false } }),
    Around((next) => next.handle().pipe(retrying(1))),
    declined,
  ],
  empty: [Idempotent(), Around((next) => next.handle().pipe(ignoreElements())), respond],
  fails: [
    Idempotent(),
    Around((next) =>
      concat(
        next.handle(),
        throwError(() => new HttpException('planned', 418)),
      ),
    ),
    respond,
  ],
  'fails-with-a-file': [
    Idempotent({ outcome: { keep: () => false } }),
    Around((next) => next.handle().pipe(switchMap(() => throwError(() => new Error('planned'))))),
    after(() => {
      const file = Readable.from(['nobody reads it']);
      files.push(file);
      return file;
    }),
  ],
  several: [Idempotent(), Around((next) => concat(of(1), next.handle(), of({ last: 3 }))), respond],
  'several-with-a-file': [
    Idempotent(),
    Around((next) => concat(next.handle(), of(Readable.from(['a', 'file']), { last: 2 }))),
    respond,
  ],
  'of-a-stream': [
    Idempotent(),
    Around((next) => next.handle().pipe(map((value) => ({ value })))),
    (scenario) => defer(() => scenario.response()),
  ],
  'of-an-empty-stream': [Idempotent(), Around(passing), () => EMPTY],
  'to-a-stream': [Idempotent(), Around((next) => next.handle().pipe(map((it) => of(it)))), respond],
  'to-a-promise': [
    Idempotent(),
    Around((next) => next.handle().pipe(map((value) => Promise.resolve({ value })))),
    respond,
  ],
  'to-a-rejection': [
    Idempotent(),
    Around((next) =>
      next.handle().pipe(map(() => Promise.reject(new HttpException('planned', 418)))),
    ),
    respond,
  ],
  'to-a-file': [
    Idempotent(),
    Around((next) => next.handle().pipe(map(() => new StreamableFile(Buffer.from('"file"'))))),
    respond,
  ],
  'to-a-readable': [
    Idempotent(),
    Around((next) =>
      next.handle().pipe(
        map(() => {
          const file = Readable.from(['"read"']);
          files.push(file);
          return file;
        }),
      ),
    ),
    respond,
  ],
  'to-a-broken-file': [
    Idempotent(),
    Around((next) =>
      next.handle().pipe(
        delay(1),
        map(() => new Readable().destroy(new Error('planned'))),
      ),
    ),
    respond,
  ],
  'to-a-function': [
    Idempotent(),
    Around((next) => next.handle().pipe(map(() => () => 'called'))),
    respond,
  ],
  'to-nothing': [Idempotent(), Around((next) => next.handle().pipe(map(() => undefined))), respond],
  'to-a-revoked-proxy': [
    Idempotent(),
    Around((next) =>
      next.handle().pipe(
        map(() => {
          const { proxy, revoke } = Proxy.revocable({}, {});
          revoke();
          return proxy;
        }),
      ),
    ),
    respond,
  ],
  'field-set': [
    Idempotent(),
    withResponse((response) => {
      response.setHeader('X-Outer', `set ${noted.push('field')}`);
    }),
    respond,
  ],
  'sent-past': [
    Idempotent(),
    withResponse((response) => {
      response.end('"past"');
    }),
    respond,
  ],
  left: [
    Idempotent({ enabled: () => false }),
    Around((next, { notes }) => next.handle().pipe(finalize(() => notes.push('left')))),
    (scenario) => defer(() => scenario.response()),
  ],
  'given-up': [
    Idempotent({ enabled: () => false }),
    Around((next) => next.handle().pipe(takeUntil(timer(20)))),
    async (scenario) => {
      await scenario.run();
      await scenario.timeout.pass();
      const file = Readable.from(['nobody reads it']);
      files.push(file);
      return new StreamableFile(file);
    },
  ],
});

describe.each(platforms)("interceptors outside of this library's on %s", (platform) => {
  const apps = [true, false].map((fastPath) =>
    useServer(() =>
      startApp({
        platform,
        controllers: [Outer],
        store: memoryStore(),
        options: { http: { fastPath } },
      }),
    ),
  );

  it.each([
    ...['throws', 'asynchronous', 'rejects', 'nothing', 'inner-throws', 'ordered'],
    ...['surrounded', 'twice', 'retried', 'no-stream', 'forgets-to-return'],
    ...['empty', 'fails', 'fails-with-a-file', 'several'],
    ...['several-with-a-file', 'of-a-stream', 'of-an-empty-stream', 'to-a-stream', 'to-a-promise'],
    ...['to-a-rejection', 'to-a-file', 'to-a-readable', 'to-a-broken-file', 'to-a-function'],
    ...['to-nothing', 'to-a-revoked-proxy', 'field-set', 'sent-past'],
  ])("see the same on the fast path as through Nest's streams: %s", async (path) => {
    const seen = [];
    for (const app of apps) {
      const scenario = app.scenario();
      [noted, files].forEach((list) => list.splice(0));
      const responses = [];
      for (const request of ['first', 'retry']) {
        const response = await scenario.post(`/${path}`);
        const { status, text, replayed } = response;
        responses.push({ request, status, text, replayed, outer: response.header('x-outer') });
      }
      const [first, retry] = responses;
      // What fails while it is sent may still be in progress.
      if (scenario.executions === 1 && first!.status < 500)
        expect(retry).toEqual({ ...first, request: 'retry', replayed: true });
      expect(files.filter((file) => !file.destroyed)).toEqual([]);
      seen.push({ responses, executions: scenario.executions, noted: [...noted] });
    }
    expect(seen[0]).toEqual(seen[1]);
    expect(seen[0]!.responses[0]!.status).toBeGreaterThan(200);
  });

  it("are left with the client that waits for an unprotected handler's stream", async () => {
    for (const app of apps) {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', '/left');
      await scenario.started.reached(1);
      expect(scenario.notes).toEqual([]);
      pending.abandon();
      await pending.response.catch(() => undefined);
      await until(() => scenario.notes.length > 0);
      expect(scenario.passed.count).toBe(0);
      scenario.gate.open();
    }
  });

  it('close a file that comes after they have given up', async () => {
    for (const app of apps) {
      files.length = 0;
      const scenario = app.scenario();
      await scenario.post('/given-up').catch(() => undefined);
      scenario.timeout.open();
      await until(() => files[0]?.destroyed === true);
    }
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

/** Waits for a lookup before it calls the handler. */
const lookingUp: Around = (next) =>
  from(Promise.resolve('looked up')).pipe(switchMap(() => next.handle()));

/** Throws on the handler's value, as envelopes and serializers may. */
const stumbling: Around = (next) =>
  next.handle().pipe(
    map(() => {
      throw new TypeError('cannot be wrapped');
    }),
  );

@Controller()
class InterceptedController {
  @Post('looked-up')
  @Around(lookingUp)
  @Idempotent()
  async lookedUp(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { key }: IdempotencyContext,
  ) {
    const execution = await scenario.run();
    return { execution, key, fromBelow: currentIdempotencyContext()?.key };
  }
}

const OtherwiseInterceptedController = controllerOf('OtherwiseInterceptedController', {
  'looked-up-and-declined': [Around(lookingUp), Idempotent(), declined],
  emptied: [Around((next) => next.handle().pipe(ignoreElements())), Idempotent(), respond],
  stumbled: [Around(stumbling), Idempotent(), respond],
  'left-out': [Around(() => EMPTY), Idempotent(), respond],
});

@Controller('class')
@Idempotent()
class ProtectedAsAWholeController {
  @Post('stumbled')
  @Around(stumbling)
  async stumbled(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('declined')
  @Around((next) => next.handle().pipe(map((response: object) => ({ ...response, wrapped: true }))))
  async declined(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'decline') throw new BadRequestException({ execution });
    return { execution };
  }
}

describe.each(platforms)('an inner interceptor on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers: [
        InterceptedController,
        OtherwiseInterceptedController,
        ProtectedAsAWholeController,
      ],
    }),
  );

  it('that calls the handler later calls it in its idempotency context', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/looked-up');
    expect(first).toMatchObject({
      status: 201,
      json: { execution: 1, key: scenario.key, fromBelow: scenario.key },
    });
    expectReplay(await scenario.post('/looked-up'), first);
    expect(scenario.executions).toBe(1);
  });

  it('C74 the handler’s 4xx is kept although an interceptor called the handler later', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/looked-up-and-declined');
    expect(first).toMatchObject({ status: 402, json: { execution: 1 } });
    expectReplay(await scenario.post('/looked-up-and-declined'), first);
    expect(scenario.executions).toBe(1);
  });

  it('that drops the handler’s value does not cause a second execution', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/emptied');
    // Nest's own response to a stream without a value.
    expect(first).toMatchObject({ status: 500, replayed: false });
    expectReplay(await scenario.post('/emptied'), first);
    expect(scenario.executions).toBe(1);
  });

  it('that neither calls the handler nor emits a value frees the key', async () => {
    const scenario = app.scenario();
    for (let post = 1; post <= 2; post += 1) {
      expect(await scenario.post('/left-out')).toMatchObject({ status: 500, replayed: false });
    }
    expect(scenario.executions).toBe(0);
  });

  it('that throws after a success is part of the operation, which has failed and runs again', async () => {
    const scenario = app.scenario();
    for (let post = 1; post <= 2; post += 1) {
      expect(await scenario.post('/stumbled')).toMatchObject({ status: 500, replayed: false });
      expect(scenario.executions).toBe(post);
    }
  });

  it('that throws after a success is outside of it where the class is protected, and nothing runs again', async () => {
    const scenario = app.scenario();
    const reported: string[] = [];
    const unsubscribe = app.nest
      .get(IdempotencyEvents)
      .subscribe(({ type }) => void reported.push(type));
    const first = await scenario.post('/class/stumbled');
    unsubscribe();
    expect(first).toMatchObject({ status: 500, replayed: false });
    expect(reported).toContain('response_diverged');
    expectReplay(await scenario.post('/class/stumbled'), first);
    expect(scenario.executions).toBe(1);
  });

  it('C74 the handler’s 4xx is kept where the class is protected', async () => {
    const scenario = app.scenario();
    scenario.plan = ['decline'];
    const first = await scenario.post('/class/declined');
    expect(first).toMatchObject({ status: 400, json: { execution: 1 } });
    expectReplay(await scenario.post('/class/declined'), first);
    expect(scenario.executions).toBe(1);
  });

  it('adds to the response, and the replay has it too, where the class is protected', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/class/declined');
    expect(first.json).toEqual({ execution: 1, wrapped: true });
    expectReplay(await scenario.post('/class/declined'), first);
    expect(scenario.executions).toBe(1);
  });
});

const asPlanned = [
  InjectsReply,
  async (scenario: Scenario, reply: Reply) => {
    const execution = await scenario.run();
    const plan = scenario.planned(execution);
    if (plan === 'fail') throw new HttpException('planned', 500);
    if (plan !== 'stay silent') reply.status(201).send({ execution });
  },
] as const;

const TimeoutController = controllerOf('TimeoutController', {
  'given-up-outside': [Idempotent(), Around(givingUp), ...asPlanned],
  'given-up-inside': [Around(givingUp), Idempotent(), ...asPlanned],
});

describe.each(platforms)('an abandoned native handler on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [TimeoutController] }),
  );

  describe.each(['/given-up-outside', '/given-up-inside'])('%s', (path) => {
    async function giveUp(...plan: string[]) {
      const scenario = app.scenario();
      scenario.plan = plan;
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      const first = await pending.response;
      expect(first).toMatchObject({ status: 503, replayed: false });
      return scenario;
    }

    it('keeps its key until it settles', async () => {
      const scenario = await giveUp('stay silent');
      expectProblem(await scenario.post(path), 'in-progress');
      expectProblem(await scenario.post(path), 'in-progress');
      expect(scenario.executions).toBe(1);
    });

    it.each([
      ['late success without a response', 'stay silent'],
      ['success whose response comes too late for the client', 'succeed'],
    ])('does not run again after a %s', async (_, plan) => {
      const scenario = await giveUp(plan);
      scenario.gate.open();
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });

    it('frees its key when it fails late', async () => {
      const scenario = await giveUp('fail');
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post(path));
      expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), second);
      expect(scenario.executions).toBe(2);
    });
  });
});
