import { describe, expect, it } from '@jest/globals';
import { Client, type Pool } from 'pg';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { pgUnitOfWork, TransactionAbortedError, TransactionOverError } from 'nestjs-idempotency/pg';
import { openPostgresPool } from '../../support/postgres-pool.js';
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
  ])('refuses %s', (_, pool) => {
    const create = () => pgUnitOfWork(pool as unknown as Pool);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('a Pool of pg 8');
  });

  describe('on a real server', () => {
    const database = useDatabase();

    it('gives handlers the rows as they type them, and nothing but queries', async () => {
      const ids = await pgUnitOfWork(database.pool).run(OPTIONS, async ({ handle }) => {
        expect(Object.keys(handle)).toEqual(['query']);
        const text = 'INSERT INTO effects VALUES ($1) RETURNING id';
        const { rows } = await handle.query<{ id: string }>({ text, values: ['one'] });
        return rows.map(({ id }) => id.toUpperCase());
      });
      expect(ids).toEqual(['ONE']);
    });

    it('says why it did not commit, and why a handle takes no more', async () => {
      const unitOfWork = pgUnitOfWork(database.pool);
      let late: () => Promise<unknown> = () => Promise.resolve();
      const run = unitOfWork.run(OPTIONS, async ({ handle }) => {
        late = () => handle.query('SELECT 1');
        await handle.query('SELECT 1/0').catch(() => undefined);
      });
      await expect(run).rejects.toThrow(TransactionAbortedError);
      await expect(late()).rejects.toThrow(TransactionOverError);
    });

    it('keeps the connection of a transaction that was rolled back, and none whose COMMIT failed', async () => {
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

      const refused = unitOfWork.run(OPTIONS, ({ handle }) =>
        handle.query('INSERT INTO bookings VALUES (1), (1)'),
      );
      await expect(refused).rejects.toThrow('duplicate key');
      expect(await backend()).not.toBe(first);
    });

    it('outlives a connection that is lost while it is lent, and the process, too', async () => {
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
