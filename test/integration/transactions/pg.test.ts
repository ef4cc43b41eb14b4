import { beforeEach, describe, expect, it } from '@jest/globals';
import { Client, type Pool, Query, type Submittable } from 'pg';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import {
  type PgTransaction,
  pgUnitOfWork,
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from 'nestjs-idempotency/pg';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { pg } from './adapters/pg.js';
import { startHastyRelay } from './support/hasty-relay.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

describeUnitOfWork(pg);

describe('pgUnitOfWork', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['a single client', new Client()],
  ])('rejects %s', (_, pool) => {
    const create = () => pgUnitOfWork(pool as unknown as Pool);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('a Pool of pg 8');
  });

  describe('on a real server', () => {
    const database = useDatabase();

    it('provides handlers with typed rows, and only with queries', async () => {
      const ids = await pgUnitOfWork(database.pool).run(OPTIONS, async ({ handle }) => {
        expect(Object.keys(handle)).toEqual(['query']);
        const text = 'INSERT INTO effects VALUES ($1) RETURNING id';
        const { rows } = await handle.query<{ id: string }>({ text, values: ['one'] });
        return rows.map(({ id }) => id.toUpperCase());
      });
      expect(ids).toEqual(['ONE']);
    });

    it('throws the reason why it did not commit, and why a handle is over', async () => {
      const unitOfWork = pgUnitOfWork(database.pool);
      let late: () => Promise<unknown> = () => Promise.resolve();
      const run = unitOfWork.run(OPTIONS, async ({ handle }) => {
        late = () => handle.query('SELECT 1');
        await handle.query('SELECT 1/0').catch(() => undefined);
      });
      await expect(run).rejects.toThrow(TransactionAbortedError);
      await expect(late()).rejects.toThrow(TransactionOverError);
    });

    describe('a handle whose transaction is over', () => {
      let handle: PgTransaction<Pool>;
      beforeEach(async () => {
        const unitOfWork = pgUnitOfWork(database.pool);
        await unitOfWork.run(OPTIONS, async (transaction) => void (handle = transaction.handle));
      });

      type Received = (error: Error) => void;
      it.each<[string, (received: Received) => unknown]>([
        ['after the text', (received) => handle.query('SELECT 1', received)],
        ['after the values', (received) => handle.query('SELECT $1', [1], received)],
        ['after an empty list of values', (received) => handle.query('SELECT 1', [], received)],
        ['after a configuration', (received) => handle.query({ text: 'SELECT 1' }, received)],
        [
          'inside a configuration',
          (received) => handle.query({ text: 'SELECT 1', callback: received } as { text: string }),
        ],
      ])('calls a callback %s, and returns undefined', async (_, query) => {
        const error = await new Promise((received) => {
          expect(query(received)).toBeUndefined();
        });
        expect(error).toBeInstanceOf(TransactionOverError);
      });

      it('returns a submittable such as a cursor, and reports the error to it later', async () => {
        const cursor = new TestCursor();
        expect(handle.query(cursor)).toBe(cursor);
        expect(cursor.errors).toEqual([]);
        await new Promise(setImmediate);
        expect(cursor.errors).toEqual([expect.any(TransactionOverError)]);
        expect(cursor.isSubmitted).toBe(false);
      });

      it('calls the listeners of a query of pg, or its callback', async () => {
        const error = await new Promise((received) => {
          const query = new Query('SELECT 1');
          query.on('error', received);
          expect(handle.query(query)).toBe(query);
        });
        expect(error).toBeInstanceOf(TransactionOverError);
        const second = await new Promise((received) => {
          Reflect.apply(handle.query, handle, [new Query('SELECT 1'), received]);
        });
        expect(second).toBeInstanceOf(TransactionOverError);
      });
    });

    it.each([
      'BEGIN',
      'begin isolation level serializable',
      'Start Transaction',
      'COMMIT',
      'commit;',
      'COMMIT AND CHAIN',
      'END',
      'ABORT',
      'ROLLBACK',
      'rollback work',
      `PREPARE TRANSACTION 'one'`,
      '\n\t COMMIT',
      '-- at last\n/* it is done */ COMMIT',
      ';COMMIT',
      'ROLLBACK -- to one\n WORK',
      'BEGIN; SELECT 1; COMMIT',
    ])('rejects %j in handlers', async (text) => {
      const rejections: unknown[] = [];
      await pgUnitOfWork(database.pool).run(OPTIONS, async ({ handle }) => {
        await handle.query(`INSERT INTO effects VALUES ('one')`);
        const requests = [handle.query(text), handle.query({ text })];
        requests.push(new Promise((_, reject) => handle.query(text, reject)));
        for (const request of requests) {
          await request.catch((error: unknown) => rejections.push(error));
        }
      });
      expect(rejections).toHaveLength(3);
      for (const error of rejections) expect(error).toBeInstanceOf(TransactionControlError);
      expect(await database.effects()).toEqual(['one']);
    });

    it('allows savepoints, and statements that only resemble transaction control', async () => {
      await pgUnitOfWork(database.pool).run(OPTIONS, async ({ handle }) => {
        await handle.query('SAVEPOINT one');
        for (const rollback of ['rollback to one', 'ROLLBACK WORK /* back */ TO SAVEPOINT one']) {
          await handle.query(`INSERT INTO effects VALUES ('undone')`);
          await handle.query(rollback);
        }
        await handle.query('RELEASE one');
        await handle.query('PREPARE commit_later AS SELECT 1');
        await handle.query(`/* COMMIT */ INSERT INTO effects VALUES ('COMMIT') -- COMMIT`);
      });
      expect(await database.effects()).toEqual(['COMMIT']);
    });

    it('keeps the connection of a rolled-back transaction, and closes one whose COMMIT failed', async () => {
      const unitOfWork = pgUnitOfWork(database.pool);
      await database.pool.query(
        'CREATE TABLE bookings (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)',
      );
      const backend = async () => {
        const { rows } = await database.pool.query<{ pid: number }>(
          'SELECT pg_backend_pid() AS pid',
        );
        return rows[0]!.pid;
      };
      const first = await backend();
      const failing = unitOfWork.run(OPTIONS, () => Promise.reject(new Error('no such customer')));
      await expect(failing).rejects.toThrow('no such customer');
      expect(await backend()).toBe(first);

      const rejected = unitOfWork.run(OPTIONS, ({ handle }) =>
        handle.query('INSERT INTO bookings VALUES (1), (1)'),
      );
      await expect(rejected).rejects.toThrow('duplicate key');
      expect(await backend()).not.toBe(first);
    });

    it('survives the loss of a connection during checkout, and so does the process', async () => {
      const relay = await startHastyRelay(database.url);
      const hasty = openPostgresPool(relay.url);
      try {
        let calls = 0;
        const run = pgUnitOfWork(hasty).run(OPTIONS, async () => void (calls += 1));
        await expect(run).rejects.toThrow();
        expect(calls).toBe(0);
        expect(hasty.totalCount).toBe(0);
      } finally {
        await hasty.end();
        await relay.stop();
      }
    });
  });
});

/** Like those of pg-cursor and pg-query-stream, which receive errors by `handleError`. */
class TestCursor implements Submittable {
  readonly errors: Error[] = [];
  isSubmitted = false;

  submit(): void {
    this.isSubmitted = true;
  }

  handleError(error: Error): void {
    this.errors.push(error);
  }
}
