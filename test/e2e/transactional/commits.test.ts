import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  StoreReplyMismatchedError,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import {
  PostgresUnitOfWork,
  type OpenTransaction,
  type TransactionOptions,
  type UnitOfWork,
} from 'nestjs-idempotency/transactions';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { endsOf, storyOf, wrongEnds, type AttemptEnd } from '../../support/engine/attempt-ends.js';
import { until } from '../../support/waiting/until.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { Gate } from '../../support/waiting/gate.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { useBank } from './support/bank.js';
import {
  Transfers,
  TransfersController,
  type Transaction,
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
    work: (transaction: OpenTransaction<Transaction>) => Promise<Result>,
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

describe('A commit of a transactional operation', () => {
  let app: TestApp;
  const events: IdempotencyEvent[] = [];
  const ends = new Set<AttemptEnd>();
  afterEach(async () => {
    await app.close();
    expect(wrongEnds(events)).toEqual([]);
    for (const how of endsOf(events)) ends.add(how);
  });
  afterAll(() => {
    const all: AttemptEnd[] = ['completed', 'conflicted', 'not_started', 'rolled_back', 'unsaved'];
    expect([...ends].sort()).toEqual(all);
  });

  async function start(
    unitOfWork: UnitOfWork,
    options: Omit<IdempotencyModuleOptions, 'store' | 'unitOfWork'> = {},
  ): Promise<void> {
    app = await startApp({
      platform: 'express',
      controllers: [TransfersController],
      providers: [Transfers],
      store: bank.newStore(),
      options: {
        unitOfWork,
        ...options,
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000, ...options.storeErrors },
      },
    });
    events.length = 0;
    app.nest
      .get(IdempotencyEvents, { strict: false })
      .subscribe((event) => events.push(event), { replacesLog: true });
  }
  const reported = () => storyOf(events);

  it('that happened counts, even if the connection then fails [P69]', async () => {
    const unitOfWork = new FaultyUnitOfWork();
    await start(unitOfWork);
    unitOfWork.afterCommit = () => {
      throw new Error('Connection terminated unexpectedly');
    };
    const scenario = app.scenario();
    const first = await scenario.post('/transfers');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(await bank.committed(scenario)).toEqual([1]);
    expectReplay(await scenario.post('/transfers'), first);
    expect(scenario.notes).toEqual(['committed']);
    expect(reported()).toEqual(['acquired', 'completed', 'replayed']);
  });

  it('that did not happen does not count: the request gets 503, and the next one runs [P69]', async () => {
    const unitOfWork = new FaultyUnitOfWork();
    await start(unitOfWork);
    unitOfWork.beforeCommit = () => {
      throw new Error('Connection terminated unexpectedly');
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(await bank.committed(scenario)).toEqual([]);
    expect(scenario.notes).toEqual([]);
    expect(reported()).toEqual(['acquired', 'rolled_back', 'released']);
    unitOfWork.beforeCommit = () => undefined;
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('whose connection returns replies of other statements is reported as such, and the next request runs', async () => {
    const unitOfWork = new FaultyUnitOfWork();
    await start(unitOfWork);
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
    const unitOfWork = new FaultyUnitOfWork();
    unitOfWork.isReplyMismatch = () => {
      throw new Error('planned');
    };
    await start(unitOfWork);
    unitOfWork.beforeCommit = () => {
      throw new Error('Connection terminated unexpectedly');
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(reported()).toEqual(['acquired', 'option_failed', 'rolled_back', 'released']);
    unitOfWork.beforeCommit = () => undefined;
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('whose record has expired meanwhile has an unknown outcome, which is reported', async () => {
    const unitOfWork = new FaultyUnitOfWork();
    await start(unitOfWork, { outcome: { retentionMs: 60_000 } });
    unitOfWork.afterCommit = async () => {
      await bank.passTime(60_000);
      throw new Error('Connection terminated unexpectedly');
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(reported()).toEqual(['acquired', 'record_lost']);
  });

  it('of a deferred conflict is reported as a conflict', async () => {
    const unitOfWork = new FaultyUnitOfWork();
    await start(unitOfWork);
    unitOfWork.beforeCommit = () => {
      throw Object.assign(new Error('could not serialize access'), { code: '40001' });
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'transaction-conflict');
    expect(reported()).toEqual(['acquired', 'conflicted', 'released']);
  });

  it.each([
    ['happens', () => undefined, [1], true],
    [
      'fails',
      () => {
        throw new Error('Connection terminated unexpectedly');
      },
      [],
      false,
    ],
  ] as [string, () => void, number[], boolean][])(
    'that exceeds "storeErrors.saveTimeoutMs" gets 503, and its later outcome counts: it %s',
    async (_, end, rows, isReplay) => {
      const unitOfWork = new FaultyUnitOfWork();
      await start(unitOfWork, { storeErrors: { saveTimeoutMs: 1_000, commandTimeoutMs: 1_000 } });
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
    await start(pgUnitOfWork(pool), { lease: { durationMs: 500, maxExecutionMs: 60_000 } });
    const holder = await pool.connect();
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(scenario.executions).toBe(0);
    holder.release();
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([1]);
    await app.close();
    await pool.end();
  });

  it('delays the shutdown until its hooks end', async () => {
    await start(bank.unitOfWork);
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
