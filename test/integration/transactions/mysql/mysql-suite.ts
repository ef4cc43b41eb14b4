import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool, type Pool, type PoolConnection, type RowDataPacket } from 'mysql2/promise';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { mysqlStore, type MysqlIdempotencyStore } from 'nestjs-idempotency/mysql';
import { fromMysql2 } from 'nestjs-idempotency/mysql2';
import { MysqlUnitOfWork, type UnitOfWork } from 'nestjs-idempotency/transactions';
import { TransactionalAttempt } from '../../postgres/support/transactional-attempt.js';
import type { Lease } from '../../../support/internals/core.js';
import { findMariaDb } from '../../../support/mysql/installations.js';
import { useMysql } from '../../../support/mysql/use-mysql.js';
import type { OpenedOnMysql, OpenOnMysql } from './adapters.js';
import { CommitRelay } from './commit-relay.js';

const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };
const RUNS = 30;
const TABLES = [
  'CREATE TABLE effects (id varchar(64) NOT NULL PRIMARY KEY) ENGINE = InnoDB',
  'CREATE TABLE accounts (id integer PRIMARY KEY, amount integer NOT NULL) ENGINE = InnoDB',
  'CREATE TABLE ballast (amount integer) ENGINE = InnoDB',
];

const given = findMariaDb() === undefined ? describe.skip : describe;

/** The contract of every unit of work on MySQL, on a real server. */
export function describeOnMysql<Handle>(name: string, openOn: OpenOnMysql<Handle>): void {
  given(`The unit of work on MySQL of ${name}`, () => describeContract(openOn));
}

function describeContract<Handle>(openOn: OpenOnMysql<Handle>): void {
  const server = useMysql();
  let url: string;
  let observer: Pool;
  let relay: CommitRelay;
  let store: MysqlIdempotencyStore;
  let opened: OpenedOnMysql<Handle> | undefined;

  beforeAll(async () => {
    url = await server.newDatabase();
    observer = createPool({ uri: url, connectionLimit: 4 });
    store = mysqlStore({ executor: fromMysql2(observer) });
    await store.migrate();
    for (const table of TABLES) await observer.query(table);
    relay = await CommitRelay.start(server.port);
  });
  beforeEach(async () => {
    await observer.query('DELETE FROM effects');
    await observer.query('REPLACE INTO accounts VALUES (1, 0), (2, 0)');
    relay.breaksAt = undefined;
  });
  afterEach(async () => {
    await opened?.close();
    opened = undefined;
  });
  afterAll(async () => {
    await relay.stop();
    await store.close();
    await observer.end();
  });

  async function open(connections = 2): Promise<OpenedOnMysql<Handle>> {
    return (opened = await openOn(relay.through(url), connections));
  }

  async function effects(): Promise<string[]> {
    const [rows] = await observer.query<RowDataPacket[]>('SELECT id FROM effects ORDER BY id');
    return rows.map(({ id }) => id as string);
  }

  async function stateOf(lease: Lease): Promise<string | undefined> {
    await store.transactional.ended(lease, { timeoutMs: 10_000 });
    return (await store.inspect(lease.recordKey, { timeoutMs: 10_000 }))?.state;
  }

  const amounts = async () => {
    const [rows] = await observer.query<RowDataPacket[]>('SELECT amount FROM accounts ORDER BY id');
    return rows.map(({ amount }) => amount as number);
  };

  async function expectTheNextRunToWork(): Promise<void> {
    const { unitOfWork, insert } = opened!;
    await unitOfWork.run(OPTIONS, ({ handle }) => insert(handle, 'next'));
    expect(await effects()).toContain('next');
  }

  const attemptOf = (unitOfWork: UnitOfWork<Handle>, maxExecutionMs?: number) =>
    new TransactionalAttempt(store, unitOfWork, maxExecutionMs);

  describe('a transaction', () => {
    it('is chosen by what the library connects to', async () => {
      expect((await open()).unitOfWork).toBeInstanceOf(MysqlUnitOfWork);
    });

    it('is committed when its work resolves, and returns the value of the work', async () => {
      const { unitOfWork, insert } = await open();
      const result = await unitOfWork.run(OPTIONS, async ({ handle }) => {
        await insert(handle, 'one');
        expect(await effects()).toEqual([]);
        return 'done';
      });
      expect(result).toBe('done');
      expect(await effects()).toEqual(['one']);
    });

    it('is rolled back when its work rejects, and throws the same error', async () => {
      const { unitOfWork, insert } = await open();
      const failure = new Error('no such customer');
      const run = unitOfWork.run(OPTIONS, async ({ handle }) => {
        await insert(handle, 'one');
        throw failure;
      });
      expect(await run.catch((error: unknown) => error)).toBe(failure);
      expect(await effects()).toEqual([]);
      await expectTheNextRunToWork();
    });

    it('rejects statements of its handle once its work is done', async () => {
      const { unitOfWork, insert } = await open(1);
      let late: Handle | undefined;
      await unitOfWork.run(OPTIONS, async ({ handle }) => {
        late = handle;
      });
      const insertLater = async () => insert(late!, 'late');
      await expect(insertLater()).rejects.toThrow();
      // By now, another request has the connection.
      await unitOfWork.run(OPTIONS, async ({ handle }) => {
        await insert(handle, 'next');
        await expect(insertLater()).rejects.toThrow();
      });
      expect(await effects()).toEqual(['next']);
    });

    it('is not ended by its handler', async () => {
      const { unitOfWork, insert, send, commit } = await open(1);
      for (const end of ['COMMIT', 'ROLLBACK', 'START TRANSACTION']) {
        const run = unitOfWork.run(OPTIONS, async ({ handle }) => {
          await insert(handle, 'one');
          await send(handle, end);
        });
        await expect(run).rejects.toThrow();
        expect(await effects()).toEqual([]);
      }
      if (commit !== undefined) {
        const run = unitOfWork.run(OPTIONS, async ({ handle }) => {
          await insert(handle, 'one');
          await commit(handle);
        });
        await expect(run).rejects.toThrow('rejects BEGIN, COMMIT and ROLLBACK');
        expect(await effects()).toEqual([]);
      }
      await expectTheNextRunToWork();
    });

    it('keeps the writes of a savepoint within it, and undoes only a failed one', async () => {
      const { unitOfWork, insert, nest } = await open(1);
      await unitOfWork.run(OPTIONS, async ({ handle }) => {
        await insert(handle, 'outer');
        await nest(handle, (inner) => insert(inner, 'kept'));
        const failing = nest(handle, async (inner) => {
          await insert(inner, 'undone');
          throw new Error('no such customer');
        });
        await failing.catch(() => undefined);
        expect(await effects()).toEqual([]);
      });
      expect(await effects()).toEqual(['kept', 'outer']);
    });

    it.each(['read committed', 'repeatable read'] as const)(
      'has the isolation %s',
      async (isolation) => {
        const { unitOfWork, insert, send } = await open(1);
        const seen: number[] = [];
        await unitOfWork.run({ ...OPTIONS, isolation }, async ({ handle }) => {
          const count = async () => JSON.stringify(await send(handle, 'SELECT id FROM effects'));
          const before = await count();
          await observer.query("INSERT INTO effects VALUES ('other')");
          seen.push(before === (await count()) ? 0 : 1);
          await insert(handle, 'own');
        });
        expect(seen).toEqual([isolation === 'read committed' ? 1 : 0]);
        await expect(
          unitOfWork.run({ ...OPTIONS, isolation: 'serializable' }, async () => undefined),
        ).rejects.toThrow(IdempotencyOptionsError);
      },
    );

    it(`releases its connection, however it ends: ${RUNS} of them over two`, async () => {
      const { unitOfWork, insert, send } = await open(2);
      const ends = Array.from({ length: RUNS }, (_, n) =>
        unitOfWork
          .run(OPTIONS, async ({ handle }) => {
            await insert(handle, `row ${n}`);
            if (n % 3 === 1) throw new Error('no such customer');
            if (n % 3 === 2) await send(handle, 'SELECT * FROM nothing');
          })
          .then(
            () => n % 3 === 0,
            () => n % 3 !== 0,
          ),
      );
      expect(await Promise.all(ends)).toEqual(ends.map(() => true));
      expect(await effects()).toHaveLength(Math.ceil(RUNS / 3));
      await expectTheNextRunToWork();
    });
  });

  describe('a conflict that the handler catches', () => {
    let other: PoolConnection;
    beforeEach(async () => {
      other = await observer.getConnection();
      await other.beginTransaction();
      // InnoDB gives up the transaction that has changed less.
      for (let row = 0; row < 20; row += 1) await other.query('INSERT INTO ballast VALUES (1)');
      await other.query('UPDATE accounts SET amount = 7 WHERE id = 1');
    });
    afterEach(async () => {
      await other.rollback();
      other.release();
    });

    it.each(['deadlock', 'lock wait timeout'])(
      'rolls all of it back, as a conflict: %s',
      async (kind) => {
        const { unitOfWork, insert, send } = await open(1);
        const attempt = attemptOf(unitOfWork);
        const lease = await attempt.begin();
        const caught: unknown[] = [];
        const deferred = await attempt.open(lease);
        const { handle } = deferred.transaction;
        await insert(handle, 'before');
        await send(handle, 'SET SESSION innodb_lock_wait_timeout = 1');
        await send(handle, 'UPDATE accounts SET amount = 1 WHERE id = 2');
        const crossed =
          kind === 'deadlock'
            ? other.query('UPDATE accounts SET amount = 7 WHERE id = 2')
            : undefined;
        await send(handle, 'UPDATE accounts SET amount = 1 WHERE id = 1').catch(
          (error: unknown) => {
            caught.push(error);
          },
        );
        await crossed;
        // The server would commit it by itself.
        const insertLater = async () => insert(handle, 'after');
        await insertLater().catch((error: unknown) => caught.push(error));
        const end = await attempt.commit(deferred, lease);
        expect(caught).toHaveLength(2);
        expect(end).toMatchObject({ kind: 'failed' });
        expect(unitOfWork.isConflict((end as { error: unknown }).error)).toBe(true);
        expect(await effects()).toEqual([]);
        expect(await stateOf(lease)).toBe('in_progress');
        await other.rollback();
        expect(await amounts()).toEqual([0, 0]);
        await expectTheNextRunToWork();
      },
    );
  });

  it('goes on after an error that undoes only its statement, as MySQL does', async () => {
    const { unitOfWork, insert } = await open(1);
    await unitOfWork.run(OPTIONS, async ({ handle }) => {
      await insert(handle, 'one');
      const again = async () => insert(handle, 'one');
      const error = await again().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(Error);
      expect(unitOfWork.isConflict(error)).toBe(false);
    });
    expect(await effects()).toEqual(['one']);
  });

  describe('record and effect', () => {
    it('are committed together', async () => {
      const { unitOfWork, insert } = await open(1);
      const attempt = attemptOf(unitOfWork);
      const lease = await attempt.begin();
      const deferred = await attempt.open(lease);
      await insert(deferred.transaction.handle, 'both');
      expect(await effects()).toEqual([]);
      expect(await attempt.commit(deferred, lease)).toEqual({ kind: 'committed' });
      expect(await effects()).toEqual(['both']);
      expect(await stateOf(lease)).toBe('completed');
    });

    it('are rolled back together', async () => {
      const { unitOfWork, insert } = await open(1);
      const attempt = attemptOf(unitOfWork);
      const lease = await attempt.begin();
      const deferred = await attempt.open(lease);
      await insert(deferred.transaction.handle, 'none');
      await deferred.rollBack();
      expect(await effects()).toEqual([]);
      expect(await stateOf(lease)).toBe('in_progress');
    });

    it('are both absent when the connection is lost before the commit', async () => {
      const { unitOfWork, insert } = await open(1);
      const attempt = attemptOf(unitOfWork);
      const lease = await attempt.begin();
      const deferred = await attempt.open(lease);
      await insert(deferred.transaction.handle, 'none');
      relay.cut();
      const end = await attempt.commit(deferred, lease);
      expect(end).toMatchObject({ kind: 'failed' });
      expect(unitOfWork.isInterruption((end as { error: unknown }).error)).toBe(true);
      expect(await effects()).toEqual([]);
      expect(await stateOf(lease)).toBe('in_progress');
      await expectTheNextRunToWork();
    });

    it.each(['before COMMIT', 'its reply'] as const)(
      'are both there or both absent when the connection breaks at %s, which run rejects',
      async (place) => {
        const { unitOfWork, insert } = await open(1);
        const attempt = attemptOf(unitOfWork);
        const lease = await attempt.begin();
        const deferred = await attempt.open(lease);
        await insert(deferred.transaction.handle, 'either');
        relay.breaksAt = place;
        const end = await attempt.commit(deferred, lease);
        relay.breaksAt = undefined;
        expect(end).toMatchObject({ kind: 'failed' });
        expect(unitOfWork.isInterruption((end as { error: unknown }).error)).toBe(true);
        const state = await stateOf(lease);
        expect(state).toBe(place === 'its reply' ? 'completed' : 'in_progress');
        expect(await effects()).toEqual(state === 'completed' ? ['either'] : []);
        await expectTheNextRunToWork();
      },
    );

    it('of a late owner are both refused', async () => {
      const { unitOfWork, insert } = await open(2);
      const attempt = attemptOf(unitOfWork);
      const lease = await attempt.begin({ leaseMs: 1 });
      // It hangs for longer than the max execution.
      const hanging = attemptOf(unitOfWork, 0);
      const late = await hanging.open(lease);
      await insert(late.transaction.handle, 'late');
      const next = await attempt.begin({ recordKey: lease.recordKey });
      const taken = await attempt.open(next);
      await insert(taken.transaction.handle, 'next');
      expect(await attempt.commit(taken, next)).toEqual({ kind: 'committed' });
      expect(await hanging.commit(late, lease)).toMatchObject({ kind: 'failed' });
      await expect(attempt.open(lease)).rejects.toThrow('The record was not locked');
      expect(await effects()).toEqual(['next']);
      expect(await stateOf(next)).toBe('completed');
    });
  });
}
