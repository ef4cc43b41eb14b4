import { pipeline, Readable } from 'node:stream';
import { pipeline as awaitedPipeline } from 'node:stream/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Post,
  Res,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import {
  IdempotencyContext,
  type IdempotencyEvent,
  IdempotencyEvents,
  type IdempotencyStore,
  Idempotent,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { fromPg } from 'nestjs-idempotency/pg';
import { migrate, type PostgresIdempotencyStore, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Pool } from 'pg';
import { driveTimers } from '../../../support/clocks/driven-time.js';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { type ExpressResponse, type FastifyReply, takeRaw } from '../../../support/http/reply.js';
import { controllerOf, respond } from '../../../support/http/routes-of.js';
import { InScenario, Scenario, scenarioOf } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { IdempotencyEngine } from '../../../support/internals/core.js';
import { findPostgres } from '../../../support/postgres/installed-postgres.js';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import {
  copyPostgres,
  type PostgresServer,
  type PostgresStandby,
  startPostgres,
} from '../../../support/postgres/postgres-server.js';
import { ShiftingRelay } from '../../../support/postgres/shifting-relay.js';
import { usePostgres } from '../../../support/postgres/use-postgres.js';
import { watchedPool } from '../../../support/postgres/watched-pool.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { START_HOOK_MS } from '../../../support/servers/start-server.js';
import { useServer } from '../../../support/servers/use-server.js';
import { FaultyStore, heldReply, heldRequest } from '../../../support/stores/faulty-store.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { Gate } from '../../../support/waiting/gate.js';
import { until } from '../../../support/waiting/until.js';

const server = usePostgres();

const GuardedController = controllerOf('GuardedController', {
  things: [Idempotent(), respond],
  'strictly-saved': [Idempotent({ storeErrors: { whenNotSaved: 'error' } }), respond],
  'fail-open': [Idempotent({ storeErrors: { whenUnavailable: 'execute' } }), respond],
});

/** Opens after a few failures, however many requests succeeded shortly before. */
const BREAKER = { errorThresholdPercentage: 10, volumeThreshold: 3, probeInterval: 100 };

describe.each(platforms)('the circuit breaker on %s, with a killed Redis', (platform) => {
  const redis = useServer(() => RedisNode.down());
  /** Counts the commands that pass the breaker. */
  let store: FaultyStore;
  const app = useServer(() => {
    store = new FaultyStore(redisStore({ url: redis.url, onConnectionError: () => undefined }));
    return startApp({
      platform,
      store,
      controllers: [GuardedController],
      options: {
        breaker: BREAKER,
        storeErrors: { commandTimeout: 1_000 },
        lease: { duration: 30_000 },
      },
    });
  });
  const events: IdempotencyEvent[] = [];
  const reported = () => events.map(({ type }) => type);

  beforeAll(() => {
    app.nest.get(IdempotencyEvents).subscribe((event) => void events.push(event), {
      replacesLog: true,
    });
  });

  async function up(): Promise<void> {
    await redis.kill();
    await redis.start();
    await until(async () => (await app.scenario().post('/things')).status === 201);
    events.length = 0;
  }

  /** Kills the server, and sends as many requests as the breaker needs to open. */
  async function down(): Promise<void> {
    await redis.kill();
    const requests = Array.from({ length: BREAKER.volumeThreshold }, () =>
      app.scenario().post('/things'),
    );
    for (const response of await Promise.all(requests))
      expectProblem(response, 'store-unavailable');
    expect(reported()).toContain('breaker_opened');
  }

  const untilClosed = () => until(() => reported().includes('breaker_closed'));

  it('responds with 503 and Retry-After while open, without calling handler or store, and closes after the probe [P39]', async () => {
    await up();
    await down();
    const begins = store.sentOf('begin').length;
    const scenario = app.scenario();
    for (let time = 0; time < 10; time += 1) {
      expectProblem(await scenario.post('/things'), 'store-unavailable');
    }
    expect(scenario.executions).toBe(0);
    expect(store.sentOf('begin')).toHaveLength(begins);
    await redis.start();
    await untilClosed();
    const first = await scenario.post('/things');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expectReplay(await scenario.post('/things'), first);
    expect(scenario.executions).toBe(1);
  });

  it('marks a fail-open response as unprotected while open, and saves it once the store is back', async () => {
    await up();
    await down();
    const scenario = app.scenario();
    const first = await scenario.post('/fail-open');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(first.header('idempotency-status')).toBe('unprotected');
    const [unprotected] = events.filter(({ type }) => type === 'unprotected');
    expect(unprotected).toMatchObject({ fencingToken: 0 });
    await redis.start();
    await until(() =>
      events.some(
        (event) => event.type === 'completed' && event.recordKey === unprotected?.recordKey,
      ),
    );
    await untilClosed();
    const second = await scenario.post('/fail-open');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(second.header('idempotency-status')).toBeUndefined();
    expect(scenario.executions).toBe(1);
  });

  it('completes an attempt that was running when the store went down, although the circuit is open', async () => {
    await up();
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/strictly-saved');
    await scenario.started.reached(1);
    await down();
    scenario.gate.open();
    expectProblem(await pending.response, 'store-unavailable');
    await redis.start();
    await until(() => events.some(({ type }) => type === 'completed'));
    await untilClosed();
    const second = await scenario.post('/strictly-saved');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });
});

describe('postgres replies', () => {
  const BEGIN = 'idempotency_begin_';
  const COMPLETE = 'idempotency_complete_';
  /** Half of them at each of the two commands. */
  const ROUNDS = 6;

  const OrdersController = controllerOf('OrdersController', {
    orders: [
      Idempotent(),
      async (scenario) => ({ execution: await scenario.run(), order: scenario.id }),
    ],
  });

  /** One connection, so that all statements share it. */
  const CONNECTION = { max: 1 };

  interface Way {
    readonly name: string;
    open(url: string): { readonly store: IdempotencyStore; readonly pool?: Pool };
  }

  const OWN_POOL: Way = {
    name: 'the store’s own pool',
    open: (url) => ({ store: postgresStore({ url, connection: CONNECTION, push: false }) }),
  };

  const USERS_POOL: Way = {
    name: 'the application’s pool',
    open: (url) => {
      const pool = openPostgresPool(url, CONNECTION);
      return { store: postgresStore({ executor: fromPg(pool) }), pool };
    },
  };

  /** Stands for a store that does not compare nonces: each reply carries the expected nonce. */
  const BELIEVING: Way = {
    name: 'a pool that forges the expected nonce',
    open: (url) => {
      const pool = openPostgresPool(url, CONNECTION);
      const client = watchedPool(pool, ({ values }, result) => {
        const [row] = result.rows as readonly { reply?: string }[];
        const words = row?.reply?.split(' ').slice(1) ?? [];
        return { rows: [{ reply: [values.at(-1), ...words].join(' ') }] };
      });
      return { store: postgresStore({ executor: fromPg(client) }), pool };
    },
  };
  let relay: ShiftingRelay;
  let app: TestApp;
  let pool: Pool | undefined;
  const events: IdempotencyEvent[] = [];

  /** An application, whose statements go through the relay, for the tests of this `describe`. */
  function useApp(way: Way): void {
    beforeAll(async () => {
      const url = await server.newDatabase();
      await migrate({ url });
      relay = await ShiftingRelay.start(server.port);
      const address = new URL(url);
      address.port = String(relay.port);
      const opened = way.open(address.href);
      pool = opened.pool;
      app = await startApp({
        platform: 'express',
        controllers: [OrdersController],
        store: opened.store,
        options: {
          storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000, whenNotSaved: 'error' },
        },
      });
      app.nest
        .get(IdempotencyEvents, { strict: false })
        .subscribe((event) => events.push(event), { replacesLog: true });
    });
    beforeEach(() => {
      events.length = 0;
    });
    afterAll(async () => {
      await app.close();
      await pool?.end();
      await relay.stop();
    });
  }

  const mismatches = () => events.filter(({ type }) => type === 'reply_mismatched');

  /** The responses that belong to another request. */
  function foreign(scenario: Scenario, responses: readonly RawResponse[]): RawResponse[] {
    return responses.filter(
      ({ status, json }) =>
        status !== 503 && !(status === 201 && (json as { order: unknown }).order === scenario.id),
    );
  }

  /** Sends requests of different keys, each after a replay whose store reply is delivered again instead of its own. */
  async function differentKeys(rounds: number): Promise<RawResponse[]> {
    const strangers: RawResponse[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const [before, scenario] = [app.scenario(), app.scenario()];
      const first = await before.post('/orders');
      const replay = await before.post('/orders');
      relay.shiftAt([BEGIN, COMPLETE][round % 2]!);
      const responses = [await scenario.post('/orders'), await scenario.post('/orders')];
      strangers.push(...foreign(before, [first, replay]), ...foreign(scenario, responses));
    }
    return strangers;
  }

  /** Gives a duplicate the reply to the begin that acquired the key. */
  async function hotKey(): Promise<{
    duplicate: RawResponse;
    scenario: Scenario;
    first: RawResponse;
  }> {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/orders');
    await scenario.started.reached(1);
    relay.shiftAt(BEGIN);
    const repeated = scenario.start('POST', '/orders');
    await Promise.race([repeated.response, scenario.started.reached(2)]);
    scenario.gate.open();
    const [first, duplicate] = await Promise.all([pending.response, repeated.response]);
    return { duplicate, scenario, first };
  }

  describe.each([OWN_POOL, USERS_POOL])(
    'shifted replies of a PostgreSQL connection with $name',
    (way) => {
      useApp(way);

      it('never give a request the response of another key, and the next requests succeed', async () => {
        expect(await differentKeys(ROUNDS)).toEqual([]);
        expect(relay.shifts).toBe(ROUNDS);
        expect(mismatches()).toHaveLength(ROUNDS);
        const scenario = app.scenario();
        const first = await scenario.post('/orders');
        expect(first.status).toBe(201);
        expectReplay(await scenario.post('/orders'), first);
        expect(mismatches()).toHaveLength(ROUNDS);
      }, 60_000);

      it('never make a duplicate the owner of its key', async () => {
        const { duplicate, scenario, first } = await hotKey();
        expectProblem(duplicate, 'store-unavailable');
        expect(first.status).toBe(201);
        expectReplay(await scenario.post('/orders'), first);
        expect(scenario.executions).toBe(1);
        expect(mismatches()).toEqual([
          {
            type: 'reply_mismatched',
            error: expect.objectContaining({ code: 'idempotency_store_reply_mismatched' }),
          },
        ]);
      });
    },
  );

  describe('an error of another statement in place of a reply', () => {
    useApp(USERS_POOL);

    it('is not accepted either', async () => {
      const scenario = app.scenario();
      await expect(pool?.query('SELECT 1 / 0')).rejects.toThrow('division by zero');
      relay.shiftAt(BEGIN);
      expectProblem(await scenario.post('/orders'), 'store-unavailable');
      expect(mismatches()).toHaveLength(1);
      expect(await scenario.post('/orders')).toMatchObject({ status: 201, json: { execution: 1 } });
    });
  });

  describe('without the comparison of nonces', () => {
    useApp(BELIEVING);

    it('the same requests get responses of other keys', async () => {
      const strangers = await differentKeys(1);
      expect(strangers).toContainEqual(expect.objectContaining({ status: 201, replayed: true }));
    });
  });

  // On a connection of its own: that of the other test remains shifted.
  describe('without the comparison of nonces, too,', () => {
    useApp(BELIEVING);

    it('the same duplicate runs the operation again', async () => {
      const { scenario } = await hotKey();
      expect(scenario.executions).toBe(2);
    });
  });
});

describe('postgres standby', () => {
  const installed = findPostgres();

  (installed === undefined ? describe.skip : describe)('records with a synchronous standby', () => {
    let primary: PostgresServer;
    let standby: PostgresStandby;
    let observer: Pool;
    let app: TestApp;

    beforeAll(async () => {
      const binaries = installed?.binaries ?? '';
      primary = await startPostgres({ binaries });
      const url = await primary.newDatabase();
      observer = openPostgresPool(url);
      const store = postgresStore({ url });
      await store.migrate();
      standby = await copyPostgres(url, binaries);
      await standby.start();
      await observer.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
      await observer.query('SELECT pg_reload_conf()');
      await until(async () => {
        const { rows } = await observer.query('SELECT sync_state FROM pg_stat_replication');
        return rows[0]?.sync_state === 'sync';
      });
      app = await startApp({
        platform: 'express',
        controllers: [GuardedController],
        store,
        options: {
          storeErrors: { commandTimeout: 5_000, saveTimeout: 1_500, whenNotSaved: 'error' },
        },
      });
    }, START_HOOK_MS);
    afterAll(async () => {
      await app.close();
      await observer.end();
      await primary.stop();
      await standby.remove();
    }, 60_000);

    /** The backends that wait until the standby has their commit. */
    async function waiting(): Promise<number[]> {
      const { rows } = await observer.query<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()`,
      );
      return rows.map(({ pid }) => pid);
    }

    /** The name of the service is a note. */
    const STATES = 'SELECT state FROM idempotency_records WHERE note IS NULL';

    async function statesOnStandby(): Promise<string[]> {
      const pool = openPostgresPool(standby.url);
      const { rows } = await pool.query<{ state: string }>(STATES);
      await pool.end();
      return rows.map(({ state }) => state);
    }

    it('are confirmed once the standby has them, even if the storing backend was terminated while it waited', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', '/things');
      await scenario.started.reached(1);
      await standby.stop();
      scenario.gate.open();
      await until(async () => (await waiting()).length === 1);
      // The primary has committed; the store's second attempt finds the record completed.
      await observer.query('SELECT pg_terminate_backend($1)', await waiting());
      expectProblem(await pending.response, 'store-unavailable');
      const { rows } = await observer.query(STATES);
      expect(rows).toEqual([{ state: 'completed' }]);

      await standby.start();
      await until(async () => (await waiting()).length === 0);
      expect(await scenario.post('/things')).toMatchObject({ status: 201, replayed: true });
      expect(scenario.executions).toBe(1);
      expect(await statesOnStandby()).toEqual(['completed']);
    });
  });
});

describe('postgres', () => {
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
  });

  describe.each(platforms)('records in PostgreSQL on %s', (platform) => {
    let app: TestApp;
    let pool: Pool;
    let store: PostgresIdempotencyStore;
    /** The connections acquired from the pool: one for each statement. */
    let statements = 0;

    beforeAll(async () => {
      pool = openPostgresPool(url);
      pool.on('acquire', () => void (statements += 1));
      store = postgresStore({ executor: fromPg(pool), listenUrl: url });
      await store.migrate();
      const options = { storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 } };
      app = await startApp({ platform, controllers: [GuardedController], store, options });
    });
    afterAll(async () => {
      await app.close();
      await pool.end();
    });

    async function statementsOf<Result>(work: Promise<Result>): Promise<[Result, number]> {
      const before = statements;
      const result = await work;
      return [result, statements - before];
    }

    it('runs two statements for a first request and one for its replay', async () => {
      const scenario = app.scenario();
      const [first, forFirst] = await statementsOf(scenario.post('/things', { json: { a: 1 } }));
      const [replay, forReplay] = await statementsOf(scenario.post('/things', { json: { a: 1 } }));
      expectReplay(replay, first);
      expect([forFirst, forReplay, scenario.executions]).toEqual([2, 1, 1]);
    });

    it('rejects another request with the same key with one statement', async () => {
      const scenario = app.scenario();
      await scenario.post('/things', { json: { a: 1 } });
      const [other, count] = await statementsOf(scenario.post('/things', { json: { a: 2 } }));
      expectProblem(other, 'key-reused');
      expect([count, scenario.executions]).toEqual([1, 1]);
    });

    it('rejects a concurrent duplicate with one statement', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', '/things');
      await scenario.started.reached(1);
      const [duplicate, count] = await statementsOf(scenario.post('/things'));
      expectProblem(duplicate, 'in-progress');
      expect(count).toBe(1);
      scenario.gate.open();
      const first = await pending.response;
      expectReplay(await scenario.post('/things'), first);
    });
  });
});

type AnyReply = ExpressResponse | FastifyReply;

/** Longer than the library waits for a response after its client disconnected. */
const BEYOND_THE_GRACE_MS = 1_200;

/** An outer interceptor that makes the response's head unreadable where the scenario plans it. */
const BreakTheHead = () =>
  UseInterceptors({
    intercept: (context: ExecutionContext, next: CallHandler) => {
      const http = context.switchToHttp();
      if (scenarioOf(http.getRequest()).plan.includes('break the head')) {
        Object.assign(http.getResponse<AnyReply>(), {
          getHeaders: () => {
            throw new Error('planned: no head');
          },
        });
      }
      return next.handle();
    },
  });

@Controller()
class SlowlyStoredController {
  @Post('value')
  @Idempotent()
  async value(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('file')
  @Idempotent()
  async file(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return new StreamableFile(Readable.from([`execution ${execution}`]));
  }

  @Post('pipeline')
  @Idempotent()
  async pipeline(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    // Where the client has left, this throws on Node 24 and later.
    pipeline(Readable.from([`execution ${execution}`]), takeRaw(reply), () => undefined);
  }

  /** Fails if its client has left. */
  @Post('awaited-pipeline')
  @Idempotent()
  async awaitedPipeline(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    await awaitedPipeline(Readable.from([`execution ${execution}`]), takeRaw(reply));
  }

  @Post('callback')
  @Idempotent()
  callback(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const raw = takeRaw(reply);
    void scenario.run().then((execution) => {
      raw.statusCode = scenario.planned(execution) === 'fail' ? 500 : 201;
      raw.end(`execution ${execution}`);
    });
  }

  @Post('given-up-outside')
  @Idempotent()
  @Around(givingUp)
  async givenUpOutside(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { attempt, isTakeover }: IdempotencyContext,
  ) {
    return { execution: await scenario.run(), attempt, isTakeover };
  }

  @Post('unprotected-given-up-outside')
  @Idempotent({ storeErrors: { whenUnavailable: 'execute' } })
  @Around(givingUp)
  async unprotectedGivenUpOutside(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    return this.givenUpOutside(scenario, context);
  }

  @Post('broken-head')
  @Idempotent()
  @BreakTheHead()
  async brokenHead(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    return this.givenUpOutside(scenario, context);
  }
}

describe.each(platforms)('a slow store on %s', (platform) => {
  let store: FaultyStore;
  let app: TestApp;

  const start = async () => {
    store = slowStore();
    app = await startApp({
      platform,
      store,
      controllers: [SlowlyStoredController],
      options: { limits: { shutdownTimeout: 1_000 } },
    });
  };
  beforeAll(async () => {
    // Not the engine's clock: it would outrun a busy machine, whose shutdowns then find attempts running.
    driveTimers(true);
    await start();
  });

  afterAll(async () => {
    await app.close();
    jest.useRealTimers();
  });

  describe.each([
    ['is on its way to the store', heldRequest],
    ['is executed but not confirmed', heldReply],
  ])('while begin %s', (_, held) => {
    it.each(['/value', '/file', '/pipeline', '/awaited-pipeline'])(
      'the client disconnects: %s runs once and is never taken over',
      async (path) => {
        const scenario = app.scenario();
        const gate = Gate.closed();
        store.next('begin', held(gate));
        const pending = scenario.start('POST', path);
        await scenario.arrived.reached(1);
        pending.abandon();
        await scenario.disconnected.reached(1);
        gate.open();
        await scenario.started.reached(1);
        const second = await onceSettled(() => scenario.post(path));
        if (path === '/value') expect(second).toMatchObject({ replayed: true, status: 201 });
        else expectProblem(second, 'response-not-kept');
        expect((await scenario.post(path)).text).toBe(second.text);
        expect(scenario.executions).toBe(1);
      },
    );

    it('an outer timeout responds: the handler is not called, and the key is free', async () => {
      const scenario = app.scenario();
      const gate = Gate.closed();
      scenario.timeout.close();
      store.next('begin', held(gate));
      const pending = scenario.start('POST', '/given-up-outside');
      await scenario.arrived.reached(1);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      const released = store.sentOf('release').length;
      gate.open();
      const second = await onceSettled(() => scenario.post('/given-up-outside'));
      expect(second).toMatchObject({
        status: 201,
        replayed: false,
        json: { execution: 1, attempt: 2, isTakeover: false },
      });
      expect(store.sentOf('release')).toHaveLength(released + 1);
      expect(scenario.executions).toBe(1);
    });

    it('an outer timeout responds: a shutdown waits for begin, but not for a lease', async () => {
      const ownStore = slowStore();
      const ownApp = await startApp({
        platform,
        store: ownStore,
        controllers: [SlowlyStoredController],
        // Both exceed the test's own timeout.
        options: { limits: { shutdownTimeout: 600_000 }, lease: { duration: 300_000 } },
      });
      const scenario = ownApp.scenario();
      const gate = Gate.closed();
      scenario.timeout.close();
      ownStore.next('begin', held(gate));
      const pending = scenario.start('POST', '/given-up-outside');
      await scenario.arrived.reached(1);
      scenario.timeout.open();
      await pending.response;
      const closed = ownApp.close();
      gate.open();
      await closed;
      expect(scenario.executions).toBe(0);
      expect(ownStore.closed).toBe(true);
    });
  });

  it('leaves no attempt when an outer timeout responds before the store fails', async () => {
    const scenario = app.scenario();
    const types: string[] = [];
    const events = app.nest.get(IdempotencyEvents, { strict: false });
    const leave = events.subscribe(({ type }) => types.push(type));
    const gate = Gate.closed();
    scenario.timeout.close();
    store.next('begin', async () => {
      await gate.pass();
      throw new StoreUnavailableError('planned: away');
    });
    const pending = scenario.start('POST', '/unprotected-given-up-outside');
    await scenario.arrived.reached(1);
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    gate.open();
    expect(await onceSettled(() => scenario.post('/unprotected-given-up-outside'))).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 1, attempt: 1, isTakeover: false },
    });
    expect(scenario.executions).toBe(1);
    // What did not run did not run without protection.
    expect(types).toEqual(['store_unavailable', 'acquired', 'completed', 'ended']);
    leave();
    expect(await drained()).toBe(0);
  });

  it('frees the key and leaves no attempt when the response cannot be recorded', async () => {
    const scenario = app.scenario();
    scenario.plan = ['break the head'];
    expect((await scenario.post('/broken-head')).status).toBe(500);
    expect(scenario.executions).toBe(0);
    scenario.plan = [];
    expect(await scenario.post('/broken-head')).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 1, attempt: 2, isTakeover: false },
    });
    expect(await drained()).toBe(0);
  });

  /** The attempts that a shutdown finds running after `limits.shutdownTimeout`; restarts the application. */
  async function drained() {
    const left = await app.nest.get(IdempotencyEngine, { strict: false }).drain();
    await app.close();
    await start();
    return left;
  }

  describe('a native handler that responds from a callback after its client disconnected', () => {
    async function leaveDuring(...plan: string[]) {
      const scenario = app.scenario();
      scenario.plan = plan;
      scenario.gate.close();
      const pending = scenario.start('POST', '/callback');
      await scenario.started.reached(1);
      pending.abandon();
      await scenario.disconnected.reached(1);
      return scenario;
    }

    it('keeps its key until it responds, however long that takes', async () => {
      const scenario = await leaveDuring('succeed');
      await jest.advanceTimersByTimeAsync(BEYOND_THE_GRACE_MS);
      expectProblem(await scenario.post('/callback'), 'in-progress');
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post('/callback'));
      expect(second).toMatchObject({ status: 201, replayed: true, text: 'execution 1' });
      expect(scenario.executions).toBe(1);
    });

    it('frees its key when it fails', async () => {
      const scenario = await leaveDuring('fail');
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post('/callback'));
      expect(second).toMatchObject({ status: 201, replayed: false, text: 'execution 2' });
      expectReplay(await scenario.post('/callback'), second);
      expect(scenario.executions).toBe(2);
    });
  });
});
