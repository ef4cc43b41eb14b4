import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import {
  Body,
  ConflictException,
  Controller,
  HttpException,
  Injectable,
  InternalServerErrorException,
  NotFoundException,
  Post,
  Res,
  StreamableFile,
} from '@nestjs/common';
import { Redis } from 'ioredis';
import {
  currentIdempotencyContext,
  IdempotencyContext,
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyMeter,
  IdempotencyReconciler,
  IdempotencyService,
  type IdempotencyStore,
  Idempotent,
  type OperationRejectedError,
  type Recovery,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Begin, IdempotencyRecord } from 'nestjs-idempotency/store';
import { defer, from, mergeMap, of, retry, throwError } from 'rxjs';
import { redisUnderTest } from '../../../conformance/redis-under-test.js';
import { driveTimers } from '../../../support/clocks/driven-time.js';
import { Around, givingUp } from '../../../support/http/around.js';
import { Public } from '../../../support/http/callers.guard.js';
import {
  combinations,
  type Platform,
  platforms,
  useStores,
} from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import {
  type ExpressResponse,
  type FastifyReply,
  type Reply,
  takeRaw,
} from '../../../support/http/reply.js';
import {
  after,
  controllerOf,
  InjectsReply,
  native,
  respond,
} from '../../../support/http/routes-of.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';
import type { Services } from '../../../support/internals/core.js';
import { DrivenClock } from '../../../support/internals/testing.js';
import { rejection } from '../../../support/nest/calling-app.js';
import { useRedis } from '../../../support/redis/use-redis.js';
import { useServer } from '../../../support/servers/use-server.js';
import {
  FaultyStore,
  heldReply,
  heldRequest,
  unavailable,
} from '../../../support/stores/faulty-store.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { Gate } from '../../../support/waiting/gate.js';
import { Tally } from '../../../support/waiting/tally.js';
import { until } from '../../../support/waiting/until.js';

const LEASE_MS = 60_000;

const stores = useStores();

describe('abort signal', () => {
  const LEASE_MS = 30_000;

  /** A provider that accepts a request and never responds. */
  let provider: Server;
  let providerUrl: string;
  const redis = useRedis();

  beforeAll(async () => {
    provider = createServer((request) => request.resume()).listen(0, '127.0.0.1');
    await once(provider, 'listening');
    providerUrl = `http://127.0.0.1:${String((provider.address() as AddressInfo).port)}`;
  });
  afterAll(async () => {
    provider.closeAllConnections();
    provider.close();
  });

  @Controller()
  class ProviderController {
    @Post('pay')
    @Idempotent({ lease: { duration: LEASE_MS }, duplicates: { timeout: 1 } })
    async pay(@InScenario() scenario: Scenario) {
      scenario.started.add();
      const { signal } = requireIdempotencyContext();
      try {
        await fetch(providerUrl, { method: 'POST', signal });
      } catch {
        scenario.notes.push(signal.reason);
      }
      return { reason: String(signal.reason) };
    }
  }

  describe.each(platforms)('the signal of an attempt on %s', (platform) => {
    const clock = new DrivenClock();
    let app: TestApp;
    let observer: Redis;

    beforeAll(async () => {
      observer = new Redis(redis.url);
      const store = redisStore({ url: redis.url, keyPrefix: platform });
      app = await startApp({
        platform,
        store,
        clock,
        controllers: [ProviderController],
        options: { storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 } },
      });
    });
    afterAll(async () => {
      observer.disconnect();
      await app.close();
    });

    it('aborts a fetch once the attempt has lost its record [P38]', async () => {
      const scenario = app.scenario();
      const pending = scenario.start('POST', '/pay');
      await scenario.started.reached(1);
      // The next heartbeat finds the record gone.
      // A digest is longer than the name of the note of a service.
      const keys = await observer.keys(`${platform}:1:${'?'.repeat(43)}`);
      expect(keys).toHaveLength(1);
      await observer.del(keys);
      await clock.advance(LEASE_MS / 3);
      expect(await pending.response).toMatchObject({ status: 201, json: { reason: 'gone' } });
      expect(scenario.notes).toEqual(['gone']);
    });
  });
});

/** Runs once per call and ends as the scenario plans: throws a status, or returns. */
async function attemptAs(scenario: Scenario, attempt: number): Promise<{ execution: number }> {
  const execution = await scenario.run();
  scenario.notes.push(attempt);
  const plan = scenario.planned(execution);
  if (plan !== 'succeed') throw new HttpException({ execution }, Number(plan));
  return { execution };
}

const retrying: Around = (next) => next.handle().pipe(retry(1));

/** Fails once after everything inside it succeeded, and subscribes again. */
const doubting: Around = (next) => {
  let asked = 0;
  return next.handle().pipe(
    mergeMap((value) => {
      asked += 1;
      return asked === 1 ? throwError(() => new Error('doubtful')) : of(value);
    }),
    retry(1),
  );
};

const doubtingReplays: Around = (next, scenario) =>
  scenario.executions > 0 ? doubting(next, scenario) : next.handle();

/** Gives up, and subscribes again once the attempt is settled. */
const retryingLater: Around = (next, scenario) => {
  const delay = () => from(until(() => scenario.notes.includes('settled')));
  return givingUp(next, scenario).pipe(retry({ count: 1, delay }));
};

@Controller()
class RetriedController {
  @Post('given-up-and-retried-later')
  @Idempotent()
  @Around(retryingLater)
  async retriedLater(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }

  @Post('retried')
  @Idempotent()
  @Around(retrying)
  retried(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { attempt }: IdempotencyContext,
    @Body() _content: unknown,
  ) {
    return attemptAs(scenario, attempt);
  }

  @Post('retried-natively')
  @Idempotent()
  @Around(retrying)
  async retriedNatively(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { attempt }: IdempotencyContext,
    @Res() reply: Reply,
  ) {
    const response = await attemptAs(scenario, attempt);
    reply.status(201).send(response);
  }

  @Post('doubted')
  @Idempotent()
  @Around(doubtingReplays)
  doubted(@InScenario() scenario: Scenario) {
    return attemptAs(scenario, 1);
  }

  @Post('given-up-and-retried-inside')
  @Around((next, scenario) => givingUp(next, scenario).pipe(retry(1)))
  @Idempotent()
  async retriedInside(@InScenario() scenario: Scenario) {
    const execution = scenario.started.add();
    if (scenario.planned(execution) !== 'at once') await scenario.gate.pass();
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }
}

describe.each(platforms)('a retrying interceptor on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [RetriedController] }),
  );

  describe.each(['/retried', '/retried-natively'])('outside of @Idempotent(), %s', (path) => {
    it('does not change the rejection of a concurrent duplicate', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      const first = await pending.response;
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(1);
    });

    it('does not change the rejection of a reused key', async () => {
      const scenario = app.scenario();
      await scenario.post(path, { json: { amount: 1 } });
      expectProblem(await scenario.post(path, { json: { amount: 2 } }), 'key-reused');
      expect(scenario.executions).toBe(1);
    });

    it('does not change the rejection of a missing key', async () => {
      const scenario = app.scenario();
      expectProblem(await scenario.post(path, { key: null }), 'key-missing');
      expect(scenario.executions).toBe(0);
    });

    it('runs a failed handler again within its attempt, and its success is kept', async () => {
      const scenario = app.scenario();
      scenario.plan = ['503'];
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.notes).toEqual([1, 1]);
    });

    it('has the last of two failures recorded', async () => {
      const scenario = app.scenario();
      scenario.plan = ['503', '402'];
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 402, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(2);
    });

    it('frees the key after two failures of which the last is not kept', async () => {
      const scenario = app.scenario();
      scenario.plan = ['402', '503'];
      expect(await scenario.post(path)).toMatchObject({ status: 503, replayed: false });
      const third = await scenario.post(path);
      expect(third).toMatchObject({ status: 201, replayed: false, json: { execution: 3 } });
      expect(scenario.notes).toEqual([1, 1, 2]);
    });
  });

  it('gets the replay again when it subscribes to it twice', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/doubted');
    expectReplay(await scenario.post('/doubted'), first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['succeed', 409],
    ['fail', 201],
  ])(
    'that subscribes again after the late end of a handler does not run it without its key (%s)',
    async (plan, status) => {
      const path = '/given-up-and-retried-later';
      const scenario = app.scenario();
      scenario.plan = [plan];
      scenario.gate.close();
      scenario.timeout.close();
      const unsubscribe = app.nest.get(IdempotencyEvents).subscribe(({ type }) => {
        if (type === 'completed' || type === 'released') scenario.notes.push('settled');
      });
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      scenario.gate.open();
      expectProblem(await pending.response, 'store-unavailable');
      unsubscribe();
      expect(scenario.executions).toBe(1);
      expect((await scenario.post(path)).status).toBe(status);
    },
  );

  describe('inside of @Idempotent(), around a timeout', () => {
    const path = '/given-up-and-retried-inside';

    async function afterTheFirstTimeout(plan: readonly string[]) {
      const scenario = app.scenario();
      scenario.plan = plan;
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      await scenario.started.reached(2);
      return { scenario, pending };
    }

    it('has the second execution decide the attempt while the first continues', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['in time', 'at once']);
      const first = await pending.response;
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      scenario.gate.open();
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(2);
    });

    it('keeps the key locked while either execution continues, and one success counts', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['fail', 'in time']);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      expect(scenario.executions).toBe(2);
    });

    it('frees the key when both executions fail late', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['fail', 'fail']);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      const third = await onceSettled(() => scenario.post(path));
      expect(third).toMatchObject({ status: 201, replayed: false, json: { execution: 3 } });
    });
  });
});

describe('reused since', () => {
  const RETENTION_MS = 3_600_000;
  @Controller()
  class Payments {
    @Post('payments')
    @Idempotent({
      lease: { duration: LEASE_MS },
      outcome: {
        keep: ({ status }) => status !== undefined && status !== 503,
        retention: RETENTION_MS,
      },
    })
    async pay(@InScenario() scenario: Scenario) {
      const execution = await scenario.run();
      const status = Number(scenario.plan[execution - 1] ?? 201);
      if (status >= 400) throw new HttpException('planned', status);
      return { token: currentIdempotencyContext()?.fencingToken };
    }
  }

  /** Two processes share one record in a Redis whose clock only the test advances. */
  describe.each(platforms)('an attempt that ends late on %s', (platform) => {
    let passTime: (ms: number) => unknown;
    let here: TestApp;
    let elsewhere: TestApp;
    const reported: IdempotencyEvent['type'][] = [];

    beforeAll(async () => {
      const stores = [await redisUnderTest.create(), await redisUnderTest.create()] as const;
      const start = (store: (typeof stores)[number]['store']) =>
        startApp({ platform, store, controllers: [Payments] });
      [here, elsewhere] = [await start(stores[0].store), await start(stores[1].store)];
      passTime = (ms) => stores[1].clock?.step(ms);
      here.nest.get(IdempotencyEvents).subscribe(({ type }) => reported.push(type));
    });
    beforeEach(() => {
      reported.length = 0;
    });
    afterAll(() => Promise.all([here.close(), elsewhere.close()]));

    async function late(json: object, plan: readonly string[] = []) {
      const scenario = here.scenario();
      scenario.plan = plan;
      scenario.gate.close();
      const pending = scenario.start('POST', '/payments', { json });
      await scenario.started.reached(1);
      return { scenario, pending };
    }

    it('gets outcome unknown, not the outcome of a later request with the same key [P51]', async () => {
      const { scenario, pending } = await late({ amount: 1_000 });
      const { key } = scenario;
      await passTime(LEASE_MS);
      const taker = elsewhere.scenario();
      taker.plan = ['503'];
      expect((await taker.post('/payments', { key, json: { amount: 1_000 } })).status).toBe(503);
      const reused = await taker.post('/payments', { key, json: { amount: 1 } });
      expect(reused).toMatchObject({ status: 201, replayed: false });

      scenario.gate.open();
      const response = await pending.response;
      expectProblem(response, 'outcome-unknown');
      expect(response.text).not.toContain(String(reused.json.token));
      expect(reported).toEqual(['acquired', 'outcome_diverged', 'ended']);
      expectReplay(await scenario.post('/payments', { json: { amount: 1 } }), reused);
      expectProblem(await scenario.post('/payments', { json: { amount: 1_000 } }), 'key-reused');
      expect([scenario.executions, taker.executions]).toEqual([1, 2]);
    });

    it('gets its own failure when its record is gone, and does not write it back', async () => {
      const { scenario, pending } = await late({ amount: 1_000 }, ['402']);
      await passTime(2 * RETENTION_MS);
      scenario.gate.open();
      expect(await pending.response).toMatchObject({ status: 402, replayed: false });
      expect(reported).toEqual(['acquired', 'record_lost', 'save_failed', 'ended']);
      const again = await elsewhere.scenario().post('/payments', {
        key: scenario.key,
        json: { amount: 1_000 },
      });
      expect(again).toMatchObject({ status: 201, replayed: false });
    });

    it('of a plain call does not get the later outcome either', async () => {
      const [service, other] = [here, elsewhere].map(({ nest }) => nest.get(IdempotencyService));
      const call = {
        ...{ operation: 'settle', key: crypto.randomUUID(), scope: 'alice' },
        lease: { duration: LEASE_MS },
        outcome: { retention: RETENTION_MS },
      };
      const [gate, started] = [new Gate(), new Tally()];
      gate.close();
      const running = rejection(
        service!.run({ ...call, payload: { amount: 1_000 } }, async () => {
          started.add();
          await gate.pass();
          return 'settled 1000';
        }),
      );
      await started.reached(1);
      await passTime(LEASE_MS);
      const failing = other!.run({ ...call, payload: { amount: 1_000 } }, () => {
        throw new Error('planned');
      });
      expect((await rejection(failing)).message).toBe('planned');
      const reused = { ...call, payload: { amount: 1 } };
      expect(await other!.run(reused, () => 'settled 1')).toBe('settled 1');

      gate.open();
      const rejectedWith = (await running) as OperationRejectedError;
      expect(rejectedWith.code).toBe('idempotency_outcome_unknown');
      expect(rejectedWith.message).not.toContain('settled');
      expect(await service!.run(reused, () => 'again')).toBe('settled 1');
    });
  });
});

type AnyReply = ExpressResponse | FastifyReply;

/** Longer than the library waits for a response after its client disconnected. */
const BEYOND_THE_GRACE_MS = 1_200;
const MAX_STORED_BYTES = 1_000;

const retriedOutside = Around((next) => next.handle().pipe(retry(1)));

const SettledController = controllerOf(
  'SettledController',
  {
    stream: async (scenario) => {
      const execution = await scenario.run();
      return defer(() => {
        scenario.notes.push('subscribed');
        return of({ execution });
      });
    },
    value: respond,
    file: after((execution) => new StreamableFile(Readable.from([`execution ${execution}`]))),
    large: after(() => {
      const chunks = [Buffer.alloc(MAX_STORED_BYTES + 1), Buffer.alloc(1_000)];
      return new StreamableFile(Readable.from(chunks));
    }),
    /** Returns before its response's body is ready. */
    body: (scenario) => {
      const chunks = async function* () {
        yield `execution ${await scenario.run()}`;
      };
      return new StreamableFile(Readable.from(chunks()));
    },
    native: native((execution, reply: AnyReply) => {
      reply.status(201).send({ execution });
    }),
    declined: after((execution) => {
      throw new HttpException(`declined ${execution}`, 402);
    }),
    failed: after((execution) => {
      throw new HttpException(`failed ${execution}`, 503);
    }),
    /** After the client disconnects, nothing of its pipeline is written and the response is never ended. */
    pipeline: [
      InjectsReply,
      async (scenario, reply: AnyReply) => {
        const raw = takeRaw(reply);
        raw.write('execution ');
        const execution = await scenario.run();
        pipeline(Readable.from([String(execution)]), raw, () => undefined);
      },
    ],
    /** Fails when half of its response is written. */
    'half-written': [
      InjectsReply,
      async (scenario, reply: AnyReply) => {
        takeRaw(reply).write('execution ');
        throw new Error(`planned ${await scenario.run()}`);
      },
    ],
    /** Fails in its first execution, when it has written nothing. */
    'native-retried-outside': [
      retriedOutside,
      InjectsReply,
      async (scenario, reply: AnyReply) => {
        const raw = takeRaw(reply);
        const execution = await scenario.run();
        if (execution === 1) throw new Error('planned');
        raw.end(`execution ${execution}`);
      },
    ],
    /** Responds with a failure, and continues. */
    'answers-first': [
      InjectsReply,
      async (scenario, reply: AnyReply) => {
        reply.status(503).send({ failed: true });
        await scenario.run();
      },
    ],
    /** Fails at the timeout's gate, and waits at the scenario's in its second execution. */
    'retried-outside': [
      retriedOutside,
      async (scenario) => {
        const execution = scenario.started.add();
        await (execution === 1 ? scenario.timeout : scenario.gate).pass();
        if (execution === 1) throw new Error('planned');
        return { execution };
      },
    ],
    'given-up-outside': [Around(givingUp), respond],
  },
  Idempotent({ outcome: { maxBytes: MAX_STORED_BYTES } }),
);

/** A decorator above `@Idempotent()` is inside of it. */
const GivenUpInsideController = controllerOf('GivenUpInsideController', {
  'given-up-inside': [Around(givingUp), Idempotent(), respond],
});

describe.each(platforms)('the record of a request under %s', (platform) => {
  let store: FaultyStore;
  let app: TestApp;
  let sentBefore: number;

  beforeAll(async () => {
    // Not the engine's clock: the timers of the Redis client must not outrun a busy machine either.
    driveTimers(true);
    store = new FaultyStore(stores.fresh('redis'));
    app = await startApp({
      platform,
      store,
      controllers: [SettledController, GivenUpInsideController],
      options: { outcome: ({ status = 0 }) => status < 500 },
    });
  });
  afterEach(() => {
    store.heal();
  });
  afterAll(async () => {
    await app.close();
    jest.useRealTimers();
  });

  /** Starts a request whose handler waits at the scenario's gate. */
  async function startHeld(scenario: Scenario, path: string) {
    scenario.gate.close();
    sentBefore = store.sent.length;
    const pending = scenario.start('POST', path);
    await scenario.started.reached(1);
    return pending;
  }

  const sentNow = (step: 'complete' | 'release') =>
    store.sent.slice(sentBefore).filter((sent) => sent.step === step);

  /** The current record of the request that {@link startHeld} started. */
  function record(): Promise<IdempotencyRecord | undefined> {
    const { recordKey } = store.sent[sentBefore]!.command as Begin;
    return store.inspect(recordKey, { timeoutMs: 5_000 });
  }

  const state = async () => (await record())?.state;

  /** Waits for another client's exchange, in which bytes that were sent too early would arrive. */
  async function aRoundTrip() {
    expect((await app.scenario().post('/value')).status).toBe(201);
  }

  describe.each([
    ['is on its way', heldRequest],
    ['is executed but not confirmed', heldReply],
  ])('whose last command %s', (_, held) => {
    it.each(['/value', '/file', '/large', '/native', '/declined'])(
      'holds back every byte of the response of %s [P03, P20]',
      async (path) => {
        const scenario = app.scenario();
        const gate = Gate.closed();
        const pending = await startHeld(scenario, path);
        store.next('complete', held(gate));
        scenario.gate.open();
        await until(() => sentNow('complete').length === 1);
        await aRoundTrip();
        expect(pending.receivedBytes).toBe(0);
        gate.open();
        const { status } = await pending.response;
        expect(status).toBe(path === '/declined' ? 402 : 201);
        expect(await state()).toBe(status === 402 ? 'failed' : 'completed');
      },
    );

    it('holds back a response that is not kept, so that an immediate retry finds the key free', async () => {
      const scenario = app.scenario();
      const gate = Gate.closed();
      const pending = await startHeld(scenario, '/failed');
      store.next('release', held(gate));
      scenario.gate.open();
      await until(() => sentNow('release').length === 1);
      await aRoundTrip();
      expect(pending.receivedBytes).toBe(0);
      gate.open();
      expect((await pending.response).status).toBe(503);
      expect(await state()).toBe('released');
    });
  });

  describe('whose client disconnects while the handler runs', () => {
    it.each(['/value', '/stream', '/file', '/pipeline'])(
      'is in progress until the handler of %s ends, however long that takes, and then completed',
      async (path) => {
        const scenario = app.scenario();
        const pending = await startHeld(scenario, path);
        pending.abandon();
        await scenario.disconnected.reached(1);
        await jest.advanceTimersByTimeAsync(BEYOND_THE_GRACE_MS);
        expect(await state()).toBe('in_progress');
        scenario.gate.open();
        await until(async () => (await state()) !== 'in_progress');
        expect(await state()).toBe('completed');
        expect(scenario.notes).toEqual(path === '/stream' ? ['subscribed'] : []);
        expect(sentNow('complete')).toHaveLength(1);
        const second = await scenario.post(path);
        if (path === '/pipeline') expectProblem(second, 'response-not-kept');
        expect(scenario.executions).toBe(1);
      },
    );

    it('is completed when the handler had returned and its body was still being produced', async () => {
      const scenario = app.scenario();
      const pending = await startHeld(scenario, '/body');
      pending.abandon();
      await scenario.disconnected.reached(1);
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      expect(await state()).toBe('completed');
    });

    it('is released once the handler has failed', async () => {
      const scenario = app.scenario();
      const pending = await startHeld(scenario, '/failed');
      pending.abandon();
      await scenario.disconnected.reached(1);
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      expect(await state()).toBe('released');
    });
  });

  it.each([
    ['an interceptor inside gave up', '/given-up-inside', 1],
    ['an interceptor outside called the handler again', '/retried-outside', 2],
  ])(
    'whose client disconnected before %s is in progress until the handler ends',
    async (_, path, executions) => {
      const scenario = app.scenario();
      scenario.timeout.close();
      const pending = await startHeld(scenario, path);
      pending.abandon();
      await scenario.disconnected.reached(1);
      scenario.timeout.open();
      await scenario.started.reached(executions);
      await aRoundTrip();
      await jest.advanceTimersByTimeAsync(BEYOND_THE_GRACE_MS);
      await aRoundTrip();
      expect(await state()).toBe('in_progress');
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      expect(await state()).toBe('completed');
    },
  );

  it('whose handler fails when half of the response is written is completed without it', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/half-written');
    expect(first).toMatchObject({ status: 201, text: 'execution ' });
    expectProblem(await scenario.post('/half-written'), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  it('whose native handler succeeds when it is called again is completed with its response', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/native-retried-outside');
    expect(first).toMatchObject({ status: 201, replayed: false, text: 'execution 2' });
    expectReplay(await scenario.post('/native-retried-outside'), first);
    expect(scenario.executions).toBe(2);
  });

  it.each(['/given-up-outside', '/given-up-inside', '/answers-first'])(
    'whose client got 503 is in progress while the handler of %s runs',
    async (path) => {
      const scenario = app.scenario();
      scenario.timeout.close();
      const pending = await startHeld(scenario, path);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      await aRoundTrip();
      expect(await state()).toBe('in_progress');
      expectProblem(await scenario.post(path), 'in-progress');
      expect(scenario.executions).toBe(1);
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      // A native handler's response is its outcome, and a failure is not kept.
      expect(await state()).toBe(path === '/answers-first' ? 'released' : 'completed');
    },
  );
});

const LimitedController = controllerOf('LimitedController', {
  things: [Idempotent(), respond],
  open: [Public(), Idempotent({ caller: { anonymous: 'shared' } }), respond],
});

describe.each(combinations)('one caller on $platform with $store', ({ platform, store }) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: stores.fresh(store),
      controllers: [LimitedController],
      options: { limits: { maxAttemptsPerCaller: 1 } },
    }),
  );

  async function held(path: string, as: string | null) {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', path, { as });
    await scenario.started.reached(1);
    return {
      end: () => {
        scenario.gate.open();
        return pending.response;
      },
    };
  }

  it('runs as many operations at a time as the limit allows, while another caller is served [P29]', async () => {
    const done = app.scenario();
    const first = await done.post('/things', { as: 'alice' });
    const running = await held('/things', 'alice');

    const late = app.scenario();
    expectProblem(await late.post('/things', { as: 'alice' }), 'too-many-attempts');
    expect(late.executions).toBe(0);
    expectReplay(await done.post('/things', { as: 'alice' }), first);
    expect(await app.scenario().post('/things', { as: 'bob' })).toMatchObject({ status: 201 });

    expect(await running.end()).toMatchObject({ status: 201 });
    expect(await late.post('/things', { as: 'alice' })).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 1 },
    });
  });

  it('is not counted where anonymous callers share a scope', async () => {
    const running = [await held('/open', null), await held('/open', null)];
    for (const { end } of running) expect(await end()).toMatchObject({ status: 201 });
  });
});

describe('recovery', () => {
  const DAY_MS = 86_400_000;
  /** The reconciler leaves younger attempts to the client's own retry. */
  const AFTER_MS = 300_000;

  /** The business data: what an abandoned attempt has left behind, by key. */
  @Injectable()
  class Payments {
    readonly found = new Map<string, () => Recovery>();
    readonly asked: IdempotencyContext[] = [];

    recover(context: IdempotencyContext): Recovery {
      this.asked.push({ ...context });
      return this.found.get(context.key)?.() ?? 'run';
    }
  }

  const recover = (context: IdempotencyContext, services: Services) =>
    Promise.resolve(services.get(Payments).recover(context));

  @Controller()
  class RecoveryController {
    @Post('payments')
    @Idempotent({ lease: { duration: LEASE_MS, onTakeover: recover } })
    async pay(@InScenario() scenario: Scenario, @Body() body: object) {
      const execution = scenario.started.add();
      // The first execution never returns by itself.
      if (execution === 1) await scenario.gate.pass();
      return { execution, body };
    }

    @Post('imported')
    @Idempotent({ lease: { duration: LEASE_MS, onTakeover: recover, recoverOn: 'always' } })
    async imported(@InScenario() scenario: Scenario) {
      const execution = await scenario.run();
      if (scenario.planned(execution) === 'fail') throw new InternalServerErrorException();
      return { execution };
    }

    @Post('careless')
    @Idempotent({ lease: { duration: LEASE_MS, onTakeover: () => 'perhaps' as never } })
    careless(@InScenario() scenario: Scenario) {
      return this.pay(scenario, {});
    }

    @Post('never-repeats')
    @Idempotent({ lease: { duration: LEASE_MS, onTakeover: 'reject' } })
    neverRepeats(@InScenario() scenario: Scenario) {
      return this.pay(scenario, {});
    }

    @Post('failures-shorter')
    @Idempotent({ outcome: { retention: ({ state }) => (state === 'failed' ? 1_000 : DAY_MS) } })
    async failuresShorter(@InScenario() scenario: Scenario) {
      const execution = await scenario.run();
      if (scenario.planned(execution) === 'fail') throw new NotFoundException({ execution });
      return { execution };
    }
  }

  function startedOn(
    platform: Platform,
    store: IdempotencyStore,
    options: StartAppOptions['options'] = {},
  ) {
    return startApp({
      platform,
      store,
      options,
      controllers: [RecoveryController],
      providers: [Payments],
    });
  }

  describe.each(platforms)('onTakeover on %s, by the clock of the store,', (platform) => {
    let now = Date.UTC(2026, 0, 1);
    let app: TestApp;
    /** Another process, whose attempts `app` takes over. */
    let owner: TestApp;
    let payments: Payments;
    const events: IdempotencyEvent[] = [];

    beforeAll(async () => {
      const store = memoryStore({ now: () => now });
      [app, owner] = [await startedOn(platform, store), await startedOn(platform, store)];
      payments = app.nest.get(Payments);
      app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => events.push(event));
    });
    afterAll(() => Promise.all([app.close(), owner.close()]));

    /** Sends a request whose attempt sends no heartbeat for `ms`. */
    async function leaveBehind(path: string, ms: number) {
      const scenario = app.scenario();
      scenario.gate.close();
      const late = scenario.start('POST', path, { json: { amount: 7 }, port: owner.port });
      late.response.catch(() => undefined);
      await scenario.started.reached(1);
      now += ms;
      return { scenario, late };
    }

    const outliveTheLease = async (path: string) => (await leaveBehind(path, LEASE_MS)).scenario;

    const again = (scenario: Scenario, path = '/payments') =>
      scenario.post(path, { json: { amount: 7 } });

    it('supplies the response as if the handler had returned it, and the handler does not run [P37]', async () => {
      const scenario = await outliveTheLease('/payments');
      payments.found.set(scenario.key, () => ({ value: { execution: 1, found: true } }));
      events.length = 0;
      const recovered = await again(scenario);
      expect(recovered).toMatchObject({ status: 201, replayed: false, json: { found: true } });
      expectReplay(await again(scenario), recovered);
      expect(scenario.executions).toBe(1);
      expect(events.map(({ type }) => type)).toEqual([
        ...['takeover', 'recovered', 'completed', 'ended', 'replayed'],
      ]);
    });

    it('receives key, scope, attempt, fencing token and signal', async () => {
      const scenario = await outliveTheLease('/payments');
      await again(scenario);
      expect(payments.asked.at(-1)).toMatchObject({
        operation: 'RecoveryController.pay',
        key: scenario.key,
        scope: [expect.anything()],
        attempt: 2,
        isTakeover: true,
        fencingToken: expect.any(Number),
        signal: expect.any(AbortSignal),
      });
    });

    it("C60a after the lease expires the key is free, and the handler runs where onTakeover returns 'run' [P37]", async () => {
      const scenario = await outliveTheLease('/payments');
      const asked = payments.asked.length;
      const second = await again(scenario);
      expect(second).toMatchObject({ status: 201, json: { execution: 2, body: { amount: 7 } } });
      expectReplay(await again(scenario), second);
      expect(payments.asked).toHaveLength(asked + 1);
    });

    it('can return the value undefined, which becomes an empty response', async () => {
      const scenario = await outliveTheLease('/payments');
      payments.found.set(scenario.key, () => ({ value: undefined }));
      const recovered = await again(scenario);
      expect(recovered).toMatchObject({ status: 201, replayed: false });
      expect(recovered.body).toHaveLength(0);
      expectReplay(await again(scenario), recovered);
      expect(scenario.executions).toBe(1);
    });

    it.each([
      ['any error', () => new Error('the database is away'), 500],
      ['an error that would be kept of a handler', () => new NotFoundException(), 404],
    ])(
      'reports %s to the client, keeps nothing, and is called again on the next retry',
      async (_, error, status) => {
        const scenario = await outliveTheLease('/payments');
        const asked = payments.asked.length;
        payments.found.set(scenario.key, () => {
          throw error();
        });
        for (const times of [1, 2]) {
          const response = await again(scenario);
          expect(response).toMatchObject({ status, replayed: false });
          expect(payments.asked).toHaveLength(asked + times);
        }
        payments.found.set(scenario.key, () => ({ value: { found: true } }));
        expect(await again(scenario)).toMatchObject({ status: 201, json: { found: true } });
        expect(scenario.executions).toBe(1);
      },
    );

    it('C60b the late owner overwrites nothing, and its client gets the stored outcome [P38]', async () => {
      const { scenario, late } = await leaveBehind('/payments', LEASE_MS);
      const recovered = await again(scenario);
      expect(recovered).toMatchObject({ status: 201, json: { execution: 2 } });
      scenario.gate.open();
      expect((await late.response).json).toEqual(recovered.json);
      expectReplay(await again(scenario), recovered);
      expect(scenario.executions).toBe(2);
    });

    it("C60a with onTakeover: 'reject' nothing runs again, and the late owner can still complete", async () => {
      const { scenario, late } = await leaveBehind('/never-repeats', LEASE_MS);
      expectProblem(await again(scenario, '/never-repeats'), 'outcome-unknown');
      scenario.gate.open();
      const first = await late.response;
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      expectReplay(await again(scenario, '/never-repeats'), first);
    });

    it('C80 outcome.retention can depend on the outcome', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail', 'succeed'];
      const failure = await scenario.post('/failures-shorter');
      expect(failure.status).toBe(404);
      now += 999;
      expectReplay(await scenario.post('/failures-shorter'), failure);
      now += 1;
      const success = await scenario.post('/failures-shorter');
      expect(success).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      now += 1_000;
      expectReplay(await scenario.post('/failures-shorter'), success);
    });

    it('fails the request and frees the key where it returns an unknown value', async () => {
      const scenario = await outliveTheLease('/careless');
      expect((await again(scenario, '/careless')).status).toBe(500);
      expect((await again(scenario, '/careless')).status).toBe(500);
      expect(scenario.executions).toBe(1);
    });

    it('stops the start on a handler that responds through @Res()', async () => {
      const NativeController = controllerOf('NativeController', {
        native: [Idempotent({ lease: { onTakeover: recover } }), InjectsReply, respond],
      });
      const start = startApp({ platform, store: memoryStore(), controllers: [NativeController] });
      await expect(start).rejects.toThrow(/NativeController\.native uses @Res\(\).*onTakeover/);
    });

    describe("with lease.recoverOn: 'always'", () => {
      const asked = ({ key }: Scenario) =>
        payments.asked.filter((context) => context.key === key).map(attemptOf);
      const attemptOf = ({ attempt, isTakeover }: IdempotencyContext) => ({ attempt, isTakeover });
      const first = { attempt: 1, isTakeover: false };

      function requestsBy(result: 'executed' | 'recovered') {
        const { operations } = app.nest.get(IdempotencyMeter, { strict: false }).read();
        return operations.get('RecoveryController.imported')?.requests.http?.[result] ?? 0;
      }

      it('is called before the first attempt, whose response is what it finds', async () => {
        const scenario = app.scenario();
        payments.found.set(scenario.key, () => ({ value: { paid: 'before' } }));
        const before = { recovered: requestsBy('recovered'), executed: requestsBy('executed') };
        events.length = 0;
        const response = await scenario.post('/imported');
        expect(response).toMatchObject({ status: 201, replayed: false, json: { paid: 'before' } });
        expectReplay(await scenario.post('/imported'), response);
        expect(scenario.executions).toBe(0);
        expect(asked(scenario)).toEqual([first]);
        expect(events.map(({ type }) => type)).toEqual([
          ...['acquired', 'recovered', 'completed', 'ended', 'replayed'],
        ]);
        expect(events.find(({ type }) => type === 'ended')).toMatchObject({ how: 'recovered' });
        expect(requestsBy('recovered')).toBe(before.recovered + 1);
        expect(requestsBy('executed')).toBe(before.executed);
      });

      it("is called once where it returns 'run', and the handler runs", async () => {
        const scenario = app.scenario();
        const before = requestsBy('executed');
        const response = await scenario.post('/imported');
        expect(response).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
        expectReplay(await scenario.post('/imported'), response);
        expect(asked(scenario)).toEqual([first]);
        expect(requestsBy('executed')).toBe(before + 1);
      });

      it('is called again after a failure of the handler, and after its own', async () => {
        const scenario = app.scenario();
        scenario.plan = ['fail'];
        expect((await scenario.post('/imported')).status).toBe(500);
        payments.found.set(scenario.key, () => {
          throw new ConflictException('still in progress there');
        });
        const rejected = await scenario.post('/imported');
        expect(rejected).toMatchObject({ status: 409, replayed: false });
        payments.found.set(scenario.key, () => ({ value: 'done there' }));
        expect(await scenario.post('/imported')).toMatchObject({ status: 201, text: 'done there' });
        expect(scenario.executions).toBe(1);
        expect(asked(scenario)).toEqual([
          first,
          { attempt: 2, isTakeover: false },
          { attempt: 3, isTakeover: false },
        ]);
      });

      it('is called at a takeover, too, and not for a duplicate', async () => {
        const { scenario, late } = await leaveBehind('/imported', 0);
        expectProblem(await scenario.post('/imported', { json: { amount: 7 } }), 'in-progress');
        now += LEASE_MS;
        payments.found.set(scenario.key, () => ({ value: { paid: 'once' } }));
        expect((await again(scenario, '/imported')).json).toEqual({ paid: 'once' });
        expect(asked(scenario)).toEqual([{ attempt: 2, isTakeover: true }]);
        scenario.gate.open();
        expect((await late.response).json).toEqual({ paid: 'once' });
        expect(scenario.executions).toBe(1);
      });

      it('is not called before a first attempt without the option', async () => {
        const scenario = app.scenario();
        payments.found.set(scenario.key, () => ({ value: 'not asked for' }));
        expect((await again(scenario)).json).toMatchObject({ execution: 1 });
        expect(asked(scenario)).toEqual([]);
      });

      it('is called before an attempt without a record, while the store is down', async () => {
        const store = new FaultyStore(memoryStore());
        store.always(unavailable, 'begin');
        const storeErrors = { whenUnavailable: 'execute' } as const;
        const alone = await startedOn(platform, store, { storeErrors });
        const scenario = alone.scenario();
        alone.nest.get(Payments).found.set(scenario.key, () => ({ value: { paid: 'before' } }));
        const response = await scenario.post('/imported');
        await alone.close();
        expect(response).toMatchObject({ status: 201, json: { paid: 'before' } });
        expect(scenario.executions).toBe(0);
      });

      it.each(['run', 'reject'] as const)(
        'stops the start with onTakeover: "%s"',
        async (words) => {
          const lease = { onTakeover: words, recoverOn: 'always' } as const;
          const WithoutFunction = controllerOf('WithoutFunction', {
            without: [Idempotent({ lease }), respond],
          });
          const controllers = [WithoutFunction];
          const start = startApp({ platform, store: memoryStore(), controllers });
          await expect(start).rejects.toThrow(
            /WithoutFunction.*"lease.onTakeover" must be a function/,
          );
        },
      );
    });

    describe('after the reconciler', () => {
      const secret = { value: { secret: 'of the table' } };

      async function reconciled(found: Recovery) {
        const left = await leaveBehind('/payments', LEASE_MS + AFTER_MS);
        payments.found.set(left.scenario.key, () => found);
        const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
        return { ...left, report: await reconciler.reconcile() };
      }

      it('does not run again what was found, and no response is invented', async () => {
        const { scenario, report } = await reconciled(secret);
        expect(report).toMatchObject({ completed: 1 });
        const response = await again(scenario);
        expectProblem(response, 'response-not-kept');
        expect(response.text).not.toContain('of the table');
        expect(scenario.executions).toBe(1);
      });

      it('lets the handler run at once where nothing was found', async () => {
        const { scenario, report } = await reconciled('run');
        expect(report).toMatchObject({ released: 1 });
        const response = await again(scenario);
        expect(response).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      });

      it('gives the late owner’s client the same response as every other', async () => {
        const { scenario, late, report } = await reconciled(secret);
        expect(report).toMatchObject({ completed: 1 });
        scenario.gate.open();
        expectProblem(await late.response, 'response-not-kept');
        expectProblem(await again(scenario), 'response-not-kept');
      });
    });
  });
});
