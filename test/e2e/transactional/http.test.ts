import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, type IdempotencyEvent } from 'nestjs-idempotency';
import { EndsOfAttempts, storyOf } from '../../support/engine/attempt-ends.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { startApp } from '../../support/http/start-app.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { until } from '../../support/waiting/until.js';
import { useServer } from '../../support/servers/use-server.js';
import { useBank } from './support/bank.js';
import { Transfers, TransfersController } from './support/transfers.controller.js';

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
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 },
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
