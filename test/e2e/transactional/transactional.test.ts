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
import { Controller, Injectable, Post, Res } from '@nestjs/common';
import {
  currentIdempotencyContext,
  currentIdempotencyTransaction,
  IdempotencyContext,
  type IdempotencyEvent,
  IdempotencyEvents,
  type IdempotencyModuleOptions,
  IdempotencyService,
  IdempotencyTransaction,
  Idempotent,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
  StoreReplyMismatchedError,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import {
  type SqlTransaction,
  PostgresUnitOfWork,
  type TransactionOptions,
  type UnitOfWork,
} from 'nestjs-idempotency/transactions';
import type { Pool } from 'pg';
import {
  type AttemptEnd,
  endsOf,
  EndsOfAttempts,
  storyOf,
} from '../../support/engine/attempt-ends.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import { afterTest } from '../../support/jest/after-test.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import { useBank } from './support/bank.js';
import {
  type Transaction,
  Transfers,
  TransfersController,
} from './support/transfers.controller.js';

const bank = useBank();

/** Fails or delays a commit, once or repeatedly. */
class FaultyUnitOfWork extends PostgresUnitOfWork<Transaction> {
  /** Runs instead of COMMIT. */
  beforeCommit: () => unknown = () => undefined;
  /** Runs instead of the reply to COMMIT. */
  afterCommit: () => unknown = () => undefined;

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    const result = await bank.unitOfWork.run(options, async (transaction) => {
      // A commit that waits here must not be cut.
      const worked = await work({ ...transaction, cut: () => undefined });
      await this.beforeCommit();
      return worked;
    });
    await this.afterCommit();
    return result;
  }
}

/** An application whose transactions are those of the bank, if the options do not say otherwise. */
const startTransfers = (options: Omit<IdempotencyModuleOptions, 'store'> = {}) =>
  startApp({
    platform: 'express',
    controllers: [TransfersController],
    providers: [Transfers],
    store: bank.newStore(),
    options: {
      unitOfWork: bank.unitOfWork,
      ...options,
      storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000, ...options.storeErrors },
    },
  });

const RETENTION_MS = 60_000;

const brokenConnection = () => {
  throw new Error('Connection terminated unexpectedly');
};

describe('A commit of a transactional operation', () => {
  const events: IdempotencyEvent[] = [];
  const reported = () => storyOf(events);
  let attempts: EndsOfAttempts;
  const ends = new Set<AttemptEnd>();
  const unitOfWork = new FaultyUnitOfWork();

  async function start(
    given: UnitOfWork,
    options: Omit<IdempotencyModuleOptions, 'store' | 'unitOfWork'> = {},
  ): Promise<TestApp> {
    const started = await startTransfers({ unitOfWork: given, ...options });
    started.nest.get(IdempotencyEvents, { strict: false }).subscribe(
      (event) => {
        events.push(event);
        attempts.add(event);
      },
      { replacesLog: true },
    );
    return started;
  }
  const app = useServer(() => start(unitOfWork, { outcome: { retention: RETENTION_MS } }));

  beforeEach(() => {
    events.length = 0;
    attempts = new EndsOfAttempts();
    unitOfWork.beforeCommit = unitOfWork.afterCommit = () => undefined;
  });
  afterEach(async () => {
    await until(() => attempts.unended.length === 0);
    expect(attempts.objections).toEqual([]);
    for (const how of endsOf(events)) ends.add(how);
  });
  afterAll(() => {
    const all: AttemptEnd[] = ['completed', 'conflicted', 'not_started', 'rolled_back', 'unsaved'];
    expect([...ends].sort()).toEqual(all);
  });

  it('that happened counts, even if the connection then fails [P69]', async () => {
    unitOfWork.afterCommit = brokenConnection;
    const scenario = app.scenario();
    const first = await scenario.post('/transfers');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(await bank.committed(scenario)).toEqual([1]);
    expectReplay(await scenario.post('/transfers'), first);
    expect(scenario.notes).toEqual(['committed']);
    expect(reported()).toEqual(['acquired', 'completed', 'replayed']);
  });

  it('that did not happen does not count: the request gets 503, and the next one runs [P69]', async () => {
    unitOfWork.beforeCommit = brokenConnection;
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(await bank.committed(scenario)).toEqual([]);
    expect(scenario.notes).toEqual([]);
    expect(reported()).toEqual(['acquired', 'rolled_back', 'released']);
    unitOfWork.beforeCommit = () => undefined;
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('that the handler has sent itself counts: its outcome is stored apart, and is reported', async () => {
    const scenario = app.scenario();
    scenario.plan = ['commit'];
    const first = await scenario.post('/transfers');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expectReplay(await scenario.post('/transfers'), first);
    // What the handler wrote after it, too.
    expect(await bank.committed(scenario)).toEqual([-1, 1]);
    expect(scenario.notes).toEqual(['committed']);
    expect(reported()).toEqual(['acquired', 'committed_apart', 'completed', 'replayed']);
  });

  it('that the handler has rolled back itself does not count, and the next request runs', async () => {
    const scenario = app.scenario();
    scenario.plan = ['roll back', 'roll back'];
    for (let request = 1; request <= 2; request += 1) {
      expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    }
    expect(scenario.executions).toBe(2);
    expect(await bank.committed(scenario)).toEqual([]);
    expect(reported().slice(0, 3)).toEqual(['acquired', 'rolled_back', 'released']);
  });

  it('whose connection returns replies of other statements is reported as such, and the next request runs', async () => {
    unitOfWork.beforeCommit = () => {
      throw new StoreReplyMismatchedError('PostgreSQL');
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(reported()).toEqual(['acquired', 'reply_mismatched', 'rolled_back', 'released']);
    unitOfWork.beforeCommit = () => undefined;
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('that fails frees the key where the unit of work cannot say why', async () => {
    const isReplyMismatch = jest.spyOn(unitOfWork, 'isReplyMismatch');
    isReplyMismatch.mockImplementation(() => {
      throw new Error('planned');
    });
    unitOfWork.beforeCommit = brokenConnection;
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    isReplyMismatch.mockRestore();
    expect(reported()).toEqual(['acquired', 'option_failed', 'rolled_back', 'released']);
    unitOfWork.beforeCommit = () => undefined;
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('whose record has expired meanwhile has an unknown outcome, which is reported', async () => {
    unitOfWork.afterCommit = async () => {
      await bank.passTime(RETENTION_MS);
      brokenConnection();
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(reported()).toEqual(['acquired', 'record_lost']);
  });

  it('of a deferred conflict is reported as a conflict', async () => {
    unitOfWork.beforeCommit = () => {
      throw Object.assign(new Error('could not serialize access'), { code: '40001' });
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'transaction-conflict');
    expect(reported()).toEqual(['acquired', 'conflicted', 'released']);
  });

  it.each<[string, () => void, number[], boolean]>([
    ['happens', () => undefined, [1], true],
    ['fails', brokenConnection, [], false],
  ])(
    'that exceeds "storeErrors.saveTimeout" gets 503, and its later outcome counts: it %s',
    async (_, end, rows, isReplay) => {
      const app = await start(unitOfWork, {
        storeErrors: { saveTimeout: 1_000, commandTimeout: 1_000 },
      });
      afterTest(() => app.close());
      const commit = Gate.closed();
      unitOfWork.beforeCommit = async () => {
        await commit.pass();
        end();
      };
      const scenario = app.scenario();
      expectProblem(await scenario.post('/transfers'), 'store-unavailable');
      expect(reported()).toEqual(['acquired', 'save_delayed']);
      expectProblem(await scenario.post('/transfers'), 'in-progress');
      commit.open();
      await until(() => reported().includes(isReplay ? 'completed' : 'released'));
      expect(await bank.committed(scenario)).toEqual(rows);
      unitOfWork.beforeCommit = () => undefined;
      expect(await scenario.post('/transfers')).toMatchObject({ status: 201, replayed: isReplay });
      expect((await bank.committed(scenario)).length).toBe(1);
    },
  );

  it('is not reached when no connection is free in time: the request gets 503, and nothing has run', async () => {
    const pool = openPostgresPool(bank.url, { max: 1 });
    afterTest(() => pool.end());
    const app = await start(pgUnitOfWork(pool), {
      lease: { duration: 500, maxExecution: 60_000 },
    });
    afterTest(() => app.close());
    const holder = await pool.connect();
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(scenario.executions).toBe(0);
    holder.release();
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([1]);
  });

  it('delays the shutdown until its hooks end', async () => {
    const app = await start(bank.unitOfWork);
    afterTest(() => app.close());
    const scenario = app.scenario();
    scenario.plan = ['succeed', 'hook waits'];
    scenario.timeout.close();
    expect((await scenario.post('/transfers')).status).toBe(201);
    let isClosed = false;
    const closing = app.close().then(() => (isClosed = true));
    await until(() => scenario.notes.includes('hook waits'));
    expect(isClosed).toBe(false);
    scenario.timeout.open();
    await closing;
    expect(scenario.notes).toEqual(['hook waits', 'committed']);
  });
});

describe('The connections of transactional operations', () => {
  let app: TestApp;
  let pool: Pool;
  async function start(max: number, options: Pick<IdempotencyModuleOptions, 'lease' | 'limits'>) {
    pool = openPostgresPool(bank.url, { application_name: 'bank', max });
    afterTest(() => pool.end());
    app = await startTransfers({ unitOfWork: pgUnitOfWork(pool), ...options });
    afterTest(() => app.close());
  }

  it('are released when one is lost, whatever its handler waits for', async () => {
    await start(1, {});
    const hanging = app.scenario();
    hanging.gate.close();
    const pending = hanging.start('POST', '/transfers');
    pending.response.catch(() => undefined);
    await hanging.started.reached(1);
    await bank.terminateIdleTransactions();
    await until(() => hanging.notes.length > 0);
    expect((await app.scenario().post('/transfers')).status).toBe(201);
    hanging.gate.open();
    expect((await pending.response).status).toBe(503);
  });

  it('are not used for requests that have timed out', async () => {
    await start(1, { lease: { duration: 500 } });
    let transactions = 0;
    pool.on('connect', (client) => {
      client.query = new Proxy(client.query.bind(client), {
        apply(query, _, values: unknown[]) {
          if (String(values[0]).includes('lock_timeout')) transactions += 1;
          return Reflect.apply(query, undefined, values);
        },
      });
    });
    const holder = await pool.connect();
    const given = [1, 2, 3].map(() => app.scenario().post('/transfers'));
    expect((await Promise.all(given)).map(({ status }) => status)).toEqual([503, 503, 503]);
    holder.release();
    expect((await app.scenario().post('/transfers')).status).toBe(201);
    expect(transactions).toBe(1);
  });

  it('hold no transaction when the shutdown no longer waits', async () => {
    await start(5, { limits: { shutdownTimeout: 100 } });
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.start('POST', '/transfers').response.catch(() => undefined);
    await scenario.started.reached(1);
    const open = async () => {
      const { rows } = await bank.observer.query(
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'bank' AND state = 'idle in transaction'",
      );
      return rows.length;
    };
    expect(await open()).toBe(1);
    const closing = app.nest.close();
    await until(async () => (await open()) === 0);
    scenario.gate.open();
    await closing;
    expect(await bank.committed(scenario)).toEqual([]);
  });
});

/** The default lease. */
const LEASE_MS = 10_000;
const STEP_MS = 3_600_000;

/** Each platform with one version: platform and database are independent. */
const targets = platforms.map((platform, index) => ({
  platform,
  version: postgresServers[index % postgresServers.length]!,
}));

describe.each(targets)('A transactional route on $platform, $version.name', (target) => {
  const { platform, version } = target;
  const bank = useBank(version);
  const events: IdempotencyEvent[] = [];
  const eventTypes = () => storyOf(events);
  const ends = new EndsOfAttempts();

  const app = useServer(() =>
    startApp({
      platform,
      controllers: [TransfersController],
      providers: [Transfers],
      store: bank.newStore(),
      options: {
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
        limits: { maxAttemptsPerCaller: 2 },
      },
    }),
  );
  beforeAll(() => {
    app.nest.get(IdempotencyEvents, { strict: false }).subscribe(
      (event) => {
        events.push(event);
        ends.add(event);
      },
      { replacesLog: true },
    );
  });
  afterEach(async () => {
    await until(() => ends.unended.length === 0);
    expect(ends.objections).toEqual([]);
  });

  it("commits the handler's writes and its response together, and replays the response", async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/transfers');
    await scenario.started.reached(1);
    expect(await bank.committed(scenario)).toEqual([]);
    expectProblem(await scenario.post('/transfers'), 'in-progress');
    scenario.gate.open();
    const first = await pending.response;
    expect(first).toMatchObject({ status: 201, json: { execution: 1, attempt: 1 } });
    expect(await bank.committed(scenario)).toEqual([1]);
    expectReplay(await scenario.post('/transfers'), first);
    expect(scenario.executions).toBe(1);
    expect(scenario.notes).toEqual(['committed']);
  });

  it.each(['/transfers', '/careful'])(
    'rejects a duplicate while an attempt runs, also when the clock has stepped back: %s',
    async (path) => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      await bank.passTime(-STEP_MS);
      const duplicate = await scenario.post(path);
      await bank.passTime(STEP_MS);
      expectProblem(duplicate, 'in-progress');
      scenario.gate.open();
      const first = await pending.response;
      expectReplay(await scenario.post(path), first);
      expect(await bank.committed(scenario)).toEqual([1]);
    },
  );

  it('opens no transaction for a caller who has as many as the limit allows', async () => {
    const as = 'user:{"id":"limited"}';
    const running = [app.scenario(), app.scenario()];
    const pending = running.map((scenario) => {
      scenario.gate.close();
      return scenario.start('POST', '/transfers', { as });
    });
    await Promise.all(running.map(({ started }) => started.reached(1)));
    const late = app.scenario();
    const opened = bank.pool.totalCount - bank.pool.idleCount;
    expectProblem(await late.post('/transfers', { as }), 'too-many-attempts');
    expect(bank.pool.totalCount - bank.pool.idleCount).toBe(opened);
    for (const { gate } of running) gate.open();
    for (const { response } of pending) expect(await response).toMatchObject({ status: 201 });
    expect(await late.post('/transfers', { as })).toMatchObject({ json: { execution: 1 } });
    expect(await bank.committed(late)).toEqual([1]);
  });

  it('rolls back when the handler throws, and may run again', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    expect((await scenario.post('/transfers')).status).toBe(500);
    expect(await bank.committed(scenario)).toEqual([]);
    expect(scenario.notes).toEqual([]);
    const second = await scenario.post('/transfers');
    expect(second).toMatchObject({ status: 201, json: { execution: 2, isTakeover: false } });
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it("looks up before the first attempt what was committed, with lease.recoverOn: 'always'", async () => {
    const scenario = app.scenario();
    await bank.pool.query('INSERT INTO transfers VALUES ($1, 7)', [scenario.key]);
    events.length = 0;
    const first = await scenario.post('/imported');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 7 } });
    expectReplay(await scenario.post('/imported'), first);
    expect(scenario.executions).toBe(0);
    expect(await bank.committed(scenario)).toEqual([7]);
    expect(eventTypes()).toContain('recovered');
    const other = app.scenario();
    expect((await other.post('/imported')).json).toEqual({ execution: 1 });
    expect(await bank.committed(other)).toEqual([1]);
  });

  it('rolls back when a failure is kept, and replays the failure', async () => {
    const scenario = app.scenario();
    scenario.plan = ['decline'];
    const first = await scenario.post('/transfers');
    expect(first.status).toBe(402);
    expect(await bank.committed(scenario)).toEqual([]);
    expectReplay(await scenario.post('/transfers'), first);
    expect(scenario.executions).toBe(1);
  });

  it.each(['404', '409'])('commits when the handler returns status %s', async (status) => {
    const scenario = app.scenario();
    scenario.plan = [status];
    const first = await scenario.post('/transfers');
    expect(first.status).toBe(Number(status));
    expect(await bank.committed(scenario)).toEqual([1]);
    expectReplay(await scenario.post('/transfers'), first);
  });

  it.each(['429', '503'])(
    'rolls back when the handler returns status %s, which is not kept',
    async (status) => {
      const scenario = app.scenario();
      scenario.plan = [status];
      expect((await scenario.post('/transfers')).status).toBe(Number(status));
      expect(await bank.committed(scenario)).toEqual([]);
      expect((await scenario.post('/transfers')).status).toBe(201);
      expect(await bank.committed(scenario)).toEqual([2]);
    },
  );

  it("rolls back when an inner interceptor turns the handler's success into a failure", async () => {
    const scenario = app.scenario();
    const failing = (status: number) =>
      scenario.post('/fails-afterwards', { headers: [['X-Fails-With', String(status)]] });
    expect((await failing(500)).status).toBe(500);
    expect(await bank.committed(scenario)).toEqual([]);
    const kept = await failing(402);
    expect(kept.status).toBe(402);
    expect(await bank.committed(scenario)).toEqual([]);
    expectReplay(await failing(402), kept);
    expect(scenario.executions).toBe(2);
  });

  it('rolls back when the response cannot be serialized', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/not-serializable')).status).toBe(500);
    expect((await scenario.post('/not-serializable')).status).toBe(500);
    expect(await bank.committed(scenario)).toEqual([]);
    expect(scenario.executions).toBe(2);
  });

  it('uses the isolation of its option, and is ended by the server at the hard deadline', async () => {
    const { json } = await app.scenario().post('/settings');
    // One second more than this process allows.
    const bounded = expect.stringMatching(/^12[34]\d{3}ms$|^12[34]s$/);
    expect(json).toEqual({
      isolation: 'repeatable read',
      ...(version.majorVersion >= 17
        ? { transaction: bounded, statement: '0', idle: '0' }
        : { transaction: null, statement: bounded, idle: bounded }),
    });
  });

  it('reports a conflict to one of two transactions that exclude each other [P70]', async () => {
    const [one, other] = [app.scenario(), app.scenario()];
    for (const { gate } of [one, other]) gate.close();
    const pending = [one, other].map((scenario) => scenario.start('POST', '/skewed'));
    await Promise.all([one.started.reached(1), other.started.reached(1)]);
    one.gate.open();
    const responses = [await pending[0]!.response];
    other.gate.open();
    responses.push(await pending[1]!.response);
    expect(responses[0]!.status).toBe(201);
    expectProblem(responses[1]!, 'transaction-conflict');
    expect(await bank.committed(other)).toEqual([]);
    expect((await other.post('/skewed')).status).toBe(201);
    expect(await bank.committed(other)).toEqual([2]);
  });

  it('runs again after a conflict, up to "transaction.conflictRetries" times', async () => {
    const scenario = app.scenario();
    scenario.plan = ['conflict', 'conflict'];
    events.length = 0;
    const first = await scenario.post('/persistent');
    expect(eventTypes()).toEqual(['acquired', 'conflicted', 'conflicted', 'completed']);
    expect(first).toMatchObject({ status: 201, json: { execution: 3 } });
    expect(await bank.committed(scenario)).toEqual([3]);
    expect([1, 2, 3].map((run) => first.header(`x-run-${run}`))).toEqual([
      ...[undefined, undefined, 'yes'],
    ]);
    expectReplay(await scenario.post('/persistent'), first);

    const unlucky = app.scenario();
    unlucky.plan = ['conflict', 'conflict', 'conflict'];
    expectProblem(await unlucky.post('/persistent'), 'transaction-conflict');
    expect(unlucky.executions).toBe(3);
    expect((await unlucky.post('/persistent')).json).toEqual({ execution: 4 });
    expect(await bank.committed(unlucky)).toEqual([4]);
  });

  it('does not run again after a conflict when its lease cannot be extended', async () => {
    const scenario = app.scenario();
    scenario.plan = ['conflict'];
    scenario.gate.close();
    const pending = scenario.start('POST', '/persistent');
    await scenario.started.reached(1);
    // By the store's clock, its hard deadline.
    await bank.passTime(300_000);
    scenario.gate.open();
    expectProblem(await pending.response, 'transaction-conflict');
    expect(scenario.executions).toBe(1);
    expect(await bank.committed(scenario)).toEqual([]);
  });

  it('responds with 503 when its connection is lost, and has written nothing [P68]', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/transfers');
    await scenario.started.reached(1);
    expect(await bank.terminateIdleTransactions()).toBe(1);
    await until(() => scenario.notes.length > 0);
    expect(scenario.notes).toEqual([{ aborted: 'connection_lost' }]);
    scenario.gate.open();
    expectProblem(await pending.response, 'store-unavailable');
    expect(await bank.committed(scenario)).toEqual([]);
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('responds with 503 when the server ends its connection during a query', async () => {
    const scenario = app.scenario();
    scenario.plan = ['terminated'];
    expectProblem(await scenario.post('/persistent'), 'store-unavailable');
    expect(await bank.committed(scenario)).toEqual([]);
    expect((await scenario.post('/persistent')).json).toEqual({ execution: 2 });
  });

  it('does not treat a commit that PostgreSQL has turned into a rollback as a commit', async () => {
    const scenario = app.scenario();
    scenario.plan = ['swallow'];
    expect((await scenario.post('/transfers')).status).toBe(503);
    expect(await bank.committed(scenario)).toEqual([]);
    expect((await scenario.post('/transfers')).status).toBe(201);
  });

  it.each(['/transfers', '/careful'])(
    'is in progress for as long as it runs, even after its lease has expired (%s)',
    async (path) => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      await bank.passTime(LEASE_MS);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      const first = await pending.response;
      expectReplay(await scenario.post(path), first);
      expect(await bank.committed(scenario)).toEqual([1]);
    },
  );

  it('is taken over as soon as its lease has expired and its connection is lost', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/transfers');
    await scenario.started.reached(1);
    await bank.passTime(LEASE_MS);
    events.length = 0;
    await bank.terminateIdleTransactions();
    // Until then, this process responds with 409 for its own executions.
    await until(() => eventTypes().includes('lease_lost'));
    const secondPending = scenario.start('POST', '/transfers');
    await scenario.started.reached(2);
    scenario.gate.open();
    const second = await secondPending.response;
    expect(second.json).toMatchObject({ execution: 2, isTakeover: true });
    expect((await pending.response).status).toBeGreaterThanOrEqual(400);
    expect(await bank.committed(scenario)).toEqual([2]);
    expectReplay(await scenario.post('/transfers'), second);
  });

  it('loses its key and its writes at the hard deadline [P66]', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/short');
    await scenario.started.reached(1);
    await until(() => scenario.notes.length > 0);
    expect(scenario.notes).toEqual([{ aborted: 'max_execution' }]);
    // The server's deadline is later than that of the process, by the time that the begin took.
    let response: RawResponse | undefined;
    const second = until(async () => {
      response = await scenario.start('POST', '/short').response;
      return response.status !== 409;
    });
    await scenario.started.reached(2);
    scenario.gate.open();
    await second;
    expect(response?.status).toBe(201);
    expect((await pending.response).status).toBeGreaterThanOrEqual(400);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('commits when the client has disconnected', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/transfers');
    pending.response.catch(() => undefined);
    await scenario.started.reached(1);
    pending.abandon();
    await scenario.disconnected.reached(1);
    scenario.gate.open();
    await until(async () => (await bank.committed(scenario)).length > 0);
    expect(await bank.committed(scenario)).toEqual([1]);
    expect(await scenario.post('/transfers')).toMatchObject({ status: 201, replayed: true });
  });

  it('notifies waiting duplicates as soon as it commits', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/waiting');
    await scenario.started.reached(1);
    const duplicates = [1, 2, 3].map(() => scenario.start('POST', '/waiting'));
    await scenario.arrived.reached(4);
    scenario.gate.open();
    const first = await pending.response;
    for (const { response } of duplicates) expectReplay(await response, first);
    expect(await bank.committed(scenario)).toEqual([1]);
  });

  it('only reports a hook that fails after the commit', async () => {
    const scenario = app.scenario();
    scenario.plan = ['succeed', 'hook fails'];
    events.length = 0;
    expect((await scenario.post('/transfers')).status).toBe(201);
    await until(() => eventTypes().includes('commit_hook_failed'));
    expect(await bank.committed(scenario)).toEqual([1]);
  });
});

const LEVELS = 3;
const STEPS = [1, 2, 3];
const transaction = { conflictRetries: 1 };

/** One of several operations, each called by the one before. The first one is a request. */
interface Level {
  readonly scenario: Scenario;
  readonly number: number;
}

const keyOf = ({ scenario, number }: Level) => `${scenario.key}:${number}`;

/** Writes in the transaction, and under the key, that are current here. */
async function write(step: number): Promise<void> {
  const { key } = requireIdempotencyContext();
  const client = requireIdempotencyTransaction<Transaction>();
  await client.query('INSERT INTO transfers VALUES ($1, $2)', [key, step]);
}

/** Writes before the next level, while it runs, and after it has ended; then ends as planned. */
async function book(level: Level, enter: (next: Level) => Promise<unknown>): Promise<string> {
  const { scenario, number } = level;
  const context = currentIdempotencyContext();
  const client = currentIdempotencyTransaction();
  await write(1);
  const next = { scenario, number: number + 1 };
  const inner = number < LEVELS ? enter(next) : Promise.resolve();
  const ended = inner.catch((error: unknown) => scenario.notes.push(String(error)));
  await write(2);
  await ended;
  await write(3);
  expect(currentIdempotencyContext()).toBe(context);
  expect(currentIdempotencyTransaction()).toBe(client);
  const plan = scenario.planned(number);
  if (plan === 'fail') throw new Error('planned');
  if (plan === 'conflict' && !scenario.notes.includes(plan)) {
    scenario.notes.push(plan);
    throw Object.assign(new Error('planned'), { code: '40001' });
  }
  return `level ${number}`;
}

@Injectable()
class Ledger {
  constructor(private readonly service: IdempotencyService) {}

  /** Calls itself. */
  @Idempotent({ operation: 'ledger.book', key: keyOf, transaction })
  async book(level: Level): Promise<string> {
    return book(level, (next) => this.book(next));
  }

  run(level: Level): Promise<string> {
    const call = { operation: 'ledger.run', key: keyOf(level), scope: 'alice', transaction };
    return this.service.run(call, () => book(level, (next) => this.run(next)));
  }

  /** Without a transaction. */
  inspect({ scenario }: Level): Promise<unknown> {
    const call = { operation: 'ledger.inspect', key: scenario.key, scope: 'alice' };
    return this.service.run(call, () => scenario.notes.push(currentIdempotencyTransaction()));
  }
}

@Controller()
@Idempotent({ transaction })
class LedgerController {
  constructor(private readonly ledger: Ledger) {}

  @Post('methods')
  methods(@InScenario() scenario: Scenario) {
    return book({ scenario, number: 1 }, (next) => this.ledger.book(next));
  }

  @Post('calls')
  calls(@InScenario() scenario: Scenario) {
    return book({ scenario, number: 1 }, (next) => this.ledger.run(next));
  }

  @Post('without-transaction')
  withoutTransaction(@InScenario() scenario: Scenario) {
    return book({ scenario, number: 1 }, (next) => this.ledger.inspect(next));
  }

  /** Calls itself, which is a plain call. */
  @Post('itself')
  async itself(
    @InScenario() scenario: Scenario,
    @IdempotencyTransaction() client: Transaction,
    @IdempotencyContext() context: IdempotencyContext,
    depth = LEVELS,
  ): Promise<string> {
    if (depth > 1) await this.itself(scenario, client, context, depth - 1);
    await write(depth);
    expect(requireIdempotencyTransaction()).toBe(client);
    expect(requireIdempotencyContext()).toBe(context);
    if (depth === LEVELS && scenario.planned(1) === 'fail') throw new Error('planned');
    return `depth ${depth}`;
  }
}

interface Written {
  /** What follows the scenario's key: nothing for the request's own. */
  readonly suffix: string;
  readonly steps: readonly number[];
  /** The ids of the transactions that wrote them. */
  readonly transactions: readonly string[];
}

async function committed({ key }: Scenario): Promise<Written[]> {
  const { rows } = await bank.observer.query(
    `SELECT substr(key, length($1) + 1) AS suffix,
       array_agg(execution ORDER BY execution) AS steps,
       array_agg(DISTINCT xmin::text) AS transactions
     FROM transfers WHERE starts_with(key, $1) GROUP BY key ORDER BY key`,
    [key],
  );
  return rows as Written[];
}

/** Every step of these levels is committed, each level's in a transaction of its own. */
async function expectCommitted(scenario: Scenario, suffixes: readonly string[]): Promise<void> {
  const written = await committed(scenario);
  expect(written.map(({ suffix, steps }) => [suffix, steps])).toEqual(
    suffixes.map((suffix) => [suffix, STEPS]),
  );
  const transactions = written.flatMap((level) => level.transactions);
  expect(transactions).toHaveLength(suffixes.length);
  expect(new Set(transactions).size).toBe(suffixes.length);
}

describe.each(platforms)('A transactional operation within another one on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      controllers: [LedgerController],
      providers: [Ledger],
      store: bank.newStore(),
      options: {
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
      },
    }),
  );

  describe.each(['/methods', '/calls'])('%s', (path) => {
    it.each([
      ['all succeed', [], ['', ':2', ':3']],
      ['the outermost one fails', ['fail'], [':2', ':3']],
      ['the one between fails', ['succeed', 'fail'], ['', ':3']],
      ['the innermost one fails', ['succeed', 'succeed', 'fail'], ['', ':2']],
      ['the outermost one conflicts', ['conflict'], ['', ':2', ':3']],
      ['the one between conflicts', ['succeed', 'conflict'], ['', ':2', ':3']],
      ['the innermost one conflicts', ['succeed', 'succeed', 'conflict'], ['', ':2', ':3']],
    ])('each writes in its own transaction, also after the inner one: %s', async (...row) => {
      const [, plan, suffixes] = row;
      const scenario = app.scenario();
      scenario.plan = plan;
      const first = await scenario.post(path);
      expect(first.status).toBe(plan[0] === 'fail' ? 500 : 201);
      await expectCommitted(scenario, suffixes);
      const failed = plan.lastIndexOf('fail') > 0 ? ['Error: planned'] : [];
      const conflicted = plan.includes('conflict') ? ['conflict'] : [];
      expect(scenario.notes).toEqual([...failed, ...conflicted]);
      if (first.status === 201) expectReplay(await scenario.post(path), first);
    });
  });

  it('continues in its transaction after a call that has none', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/without-transaction')).status).toBe(201);
    expect(scenario.notes).toEqual([undefined]);
    await expectCommitted(scenario, ['']);
  });

  it.each([
    ['succeed', 201, ['']],
    ['fail', 500, []],
  ])('is the same one where a handler calls itself: %s', async (plan, status, suffixes) => {
    const scenario = app.scenario();
    scenario.plan = [plan];
    expect((await scenario.post('/itself')).status).toBe(status);
    await expectCommitted(scenario, suffixes);
  });
});

@Controller()
class TransactionalController {
  @Post()
  @Idempotent({ transaction: true })
  create() {
    return {};
  }
}

@Controller()
class NativeController {
  @Post()
  @Idempotent({ transaction: true })
  create(@Res() response: { end(): void }) {
    response.end();
  }
}

describe('The application does not start with a transactional route', () => {
  const halfUnitOfWork = { run: () => Promise.reject(new Error('planned')) };

  it.each<[string, object, string, (new () => object)?]>([
    [
      'without a unit of work',
      { unitOfWork: undefined },
      'The option "transaction" needs the module option "unitOfWork"',
    ],
    [
      'with a value that is not a unit of work',
      { unitOfWork: {} },
      'The option "unitOfWork" must be a UnitOfWork, such as pgUnitOfWork(pool)',
    ],
    [
      'with a unit of work that implements "run" only',
      { unitOfWork: halfUnitOfWork },
      'pgUnitOfWork(pool), with isConflict(), isInterruption(), isReplyMismatch()',
    ],
    [
      'on a store that cannot take part in a transaction',
      { store: memoryStore() },
      'The option "transaction" needs a "store" in the database of its transactions',
    ],
    [
      'that may run without the store',
      { storeErrors: { whenUnavailable: 'execute' } },
      `"transaction" contradicts "storeErrors.whenUnavailable": 'execute'`,
    ],
    [
      'whose handler sends its response itself',
      {},
      'NativeController.create uses @Res() to send its response',
      NativeController,
    ],
    [
      'with neither true, false nor an object',
      { transaction: 'yes' },
      'The option "transaction" must be true, false or an object',
    ],
    [
      'with an unknown isolation',
      { transaction: { isolation: 'snapshot' } },
      'The option "transaction.isolation" must be "default", "read committed"',
    ],
  ])('%s', async (_, options, message, controller = TransactionalController) => {
    const { store = bank.newStore(), ...rest } = options as Partial<IdempotencyModuleOptions>;
    const starting = startApp({
      platform: 'express',
      controllers: [controller],
      store,
      options: { unitOfWork: bank.unitOfWork, ...rest },
    });
    await expect(starting).rejects.toThrow(message);
  });
});
