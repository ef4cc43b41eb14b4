import { describe, expect, it } from '@jest/globals';
import { drizzle as openDrizzle } from 'drizzle-orm/node-postgres';
import { Client, type Pool } from 'pg';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { drizzleUnitOfWork } from 'nestjs-idempotency/drizzle';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { drizzle, effects, schema } from './adapters/drizzle.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

describeUnitOfWork(drizzle);

describe('drizzleUnitOfWork', () => {
  const pool = openPostgresPool('postgres://127.0.0.1/shop');

  it.each([
    ['nothing', undefined, undefined],
    ['a URL', 'postgres://127.0.0.1/shop', openDrizzle],
    ['a single client', new Client(), openDrizzle],
    ['a database', openDrizzle(pool), undefined],
    ['only a pool', pool, undefined],
  ])('rejects %s', (_, first, second) => {
    const create = () => drizzleUnitOfWork(first as Pool, second!);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('drizzleUnitOfWork(pool, (client) => drizzle(client, { schema }))');
  });

  describe('on a real server', () => {
    const database = useDatabase();

    function open() {
      return drizzleUnitOfWork(database.pool, (client) => openDrizzle(client, { schema }));
    }

    it('provides handlers with their schema', async () => {
      const ids = await open().run(OPTIONS, async ({ handle }) => {
        await handle.insert(effects).values([{ id: 'one' }, { id: 'two' }]);
        const rows = await handle.query.effects.findMany({ orderBy: effects.id });
        return rows.map(({ id }) => id.toUpperCase());
      });
      expect(ids).toEqual(['ONE', 'TWO']);
    });

    it('keeps the writes of a nested transaction, and rolls back only a failed one', async () => {
      await open().run(OPTIONS, async ({ handle }) => {
        await handle.transaction((nested) => nested.insert(effects).values({ id: 'kept' }));
        const failing = handle.transaction(async (nested) => {
          await nested.insert(effects).values({ id: 'undone' });
          nested.rollback();
        });
        await failing.catch(() => undefined);
      });
      expect(await database.effects()).toEqual(['kept']);
    });

    it('rejects queries built from the handle once the transaction is over', async () => {
      const late: (() => Promise<unknown>)[] = [];
      await open().run(OPTIONS, async ({ handle }) => {
        const query = handle.insert(effects).values({ id: 'late query' });
        late.push(async () => query);
        const prepared = handle.insert(effects).values({ id: 'late prepared' }).prepare('late');
        late.push(() => prepared.execute());
        await handle.transaction(async (nested) => {
          late.push(async () => nested.insert(effects).values({ id: 'late nested' }));
        });
      });
      for (const insert of late) {
        const error = await insert().catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ cause: { name: 'TransactionOverError' } });
      }
      expect(late).toHaveLength(3);
      expect(await database.effects()).toEqual([]);
    });

    it('rejects BEGIN, COMMIT and ROLLBACK statements', async () => {
      const run = open().run(OPTIONS, async ({ handle }) => {
        await handle.insert(effects).values({ id: 'one' });
        await handle.execute('COMMIT');
      });
      const error = await run.catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ cause: { name: 'TransactionControlError' } });
      expect(await database.effects()).toEqual([]);
    });

    it('throws the reason why it did not commit', async () => {
      const run = open().run(OPTIONS, async ({ handle }) => {
        await handle.execute('SELECT 1/0').catch(() => undefined);
      });
      const error = await run.catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ cause: { name: 'TransactionAbortedError' } });
    });
  });
});
