import { afterEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  StoreReplyMismatchedError,
  UnitOfWork,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
  type OpenTransaction,
  type TransactionOptions,
} from 'nestjs-idempotency';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { until } from '../../integration/redis/support/until.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { Gate } from '../../support/http/gate.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { openPostgresPool } from '../../support/postgres-pool.js';
import { useBank } from './support/bank.js';
import {
  Transfers,
  TransfersController,
  type Transaction,
} from './support/transfers.controller.js';

const bank = useBank();

/** Whatever goes wrong around a commit, once or for as long as it is so. */
class TroubledUnitOfWork extends UnitOfWork<Transaction> {
  /** In place of COMMIT. */
  beforeCommit: () => unknown = () => undefined;
  /** In place of the reply to it. */
  afterCommit: () => unknown = () => undefined;

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: OpenTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    const result = await bank.unitOfWork.run(options, async (transaction) => {
      // Nobody can cut what waits here.
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
  afterEach(() => app.close());

  async function start(
    unitOfWork: UnitOfWork,
    options: Omit<IdempotencyModuleOptions, 'store' | 'unitOfWork'> = {},
  ): Promise<void> {
    app = await startApp({
      platform: 'express',
      controllers: [TransfersController],
      providers: [Transfers],
      store: bank.newStore(),
      options: { unitOfWork, commandTimeoutMs: 5_000, saveTimeoutMs: 5_000, ...options },
    });
    events.length = 0;
    app.nest
      .get(IdempotencyEvents, { strict: false })
      .subscribe((event) => events.push(event), { replacesLog: true });
  }
  const told = () => events.map(({ type }) => type);

  it('that happened is one, whatever the connection says', async () => {
    const unitOfWork = new TroubledUnitOfWork();
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
    expect(told()).toEqual(['acquired', 'completed', 'replayed']);
  });

  it('that did not happen is none: 503, and the next one runs', async () => {
    const unitOfWork = new TroubledUnitOfWork();
    await start(unitOfWork);
    unitOfWork.beforeCommit = () => {
      throw new Error('Connection terminated unexpectedly');
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(await bank.committed(scenario)).toEqual([]);
    expect(scenario.notes).toEqual([]);
    expect(told()).toEqual(['acquired', 'rolled_back', 'released']);
    unitOfWork.beforeCommit = () => undefined;
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('whose connection gives the replies of other statements is told as such, and the next one runs', async () => {
    const unitOfWork = new TroubledUnitOfWork();
    await start(unitOfWork);
    unitOfWork.beforeCommit = () => {
      throw new StoreReplyMismatchedError('PostgreSQL');
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'store-unavailable');
    expect(told()).toEqual(['acquired', 'reply_mismatched', 'rolled_back', 'released']);
    unitOfWork.beforeCommit = () => undefined;
    expect((await scenario.post('/transfers')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('of a deferred conflict is told as one', async () => {
    const unitOfWork = new TroubledUnitOfWork();
    await start(unitOfWork);
    unitOfWork.beforeCommit = () => {
      throw Object.assign(new Error('could not serialize access'), { code: '40001' });
    };
    const scenario = app.scenario();
    expectProblem(await scenario.post('/transfers'), 'transaction-conflict');
    expect(told()).toEqual(['acquired', 'conflicted', 'released']);
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
    'that takes too long is waited for no longer, and what it comes to holds: it %s',
    async (_, end, rows, isReplay) => {
      const unitOfWork = new TroubledUnitOfWork();
      await start(unitOfWork, { saveTimeoutMs: 1_000, commandTimeoutMs: 1_000 });
      const commit = new Gate();
      commit.close();
      unitOfWork.beforeCommit = async () => {
        await commit.pass();
        end();
      };
      const scenario = app.scenario();
      expectProblem(await scenario.post('/transfers'), 'store-unavailable');
      expect(told()).toEqual(['acquired', 'save_delayed']);
      expectProblem(await scenario.post('/transfers'), 'in-progress');
      commit.open();
      await until(() => told().includes(isReplay ? 'completed' : 'released'));
      expect(await bank.committed(scenario)).toEqual(rows);
      unitOfWork.beforeCommit = () => undefined;
      expect(await scenario.post('/transfers')).toMatchObject({ status: 201, replayed: isReplay });
      expect((await bank.committed(scenario)).length).toBe(1);
    },
  );

  it('is not reached where no connection is free in time: 503, and nothing has run', async () => {
    const pool = openPostgresPool(bank.url, { max: 1 });
    await start(pgUnitOfWork(pool), { leaseMs: 500, maxExecutionMs: 60_000 });
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

  it('waits for hooks at the shutdown', async () => {
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
