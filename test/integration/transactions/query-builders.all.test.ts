import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { drizzle as openDrizzle } from 'drizzle-orm/node-postgres';
import openKnex from 'knex';
import type { Knex } from 'knex';
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { drizzleUnitOfWork } from 'nestjs-idempotency/drizzle';
import {
  knexUnitOfWork,
  TransactionAbortedError,
  TransactionOverError,
} from 'nestjs-idempotency/knex';
import { kyselyUnitOfWork } from 'nestjs-idempotency/kysely';
import { Client, type Pool } from 'pg';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { drizzle, drizzle1, effects, schema } from './adapters/drizzle.js';
import { knex } from './adapters/knex.js';
import { kysely, type Tables } from './adapters/kysely.js';
import { onPostgres } from './adapters/on-postgres.js';
import { startHastyRelay } from './support/hasty-relay.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

describeUnitOfWork(drizzle);
describeUnitOfWork(drizzle1);

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

describeUnitOfWork(knex);

describe('knexUnitOfWork', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['the function that creates one', openKnex],
  ])('rejects %s', (_, db) => {
    const create = () => knexUnitOfWork(db as unknown as Knex);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow(`the result of knex({ client: 'pg', … })`);
  });

  describe('on a real server', () => {
    const database = useDatabase();
    let db: Knex;

    beforeEach(() => {
      db = openKnex({ client: 'pg', connection: database.url, pool: { min: 0, max: 1 } });
    });
    afterEach(() => db.destroy());

    it('rejects a transaction in place of a database', async () => {
      await db.transaction(async (transaction) => {
        expect(() => knexUnitOfWork(transaction)).toThrow(IdempotencyOptionsError);
      });
    });

    it('lets other queries join by transacting', async () => {
      const run = knexUnitOfWork(db).run(OPTIONS, async ({ handle }) => {
        await db('effects').transacting(handle).insert({ id: 'joined' });
        await handle('effects').where({ id: 'joined' }).select(handle.fn.now());
        throw new Error('no such customer');
      });
      await expect(run).rejects.toThrow('no such customer');
      expect(await database.effects()).toEqual([]);
    });

    it('keeps the writes of a nested transaction, and rolls back only a failed one', async () => {
      await knexUnitOfWork(db).run(OPTIONS, async ({ handle }) => {
        await handle.transaction((nested) => nested('effects').insert({ id: 'kept' }));
        const failing = handle.transaction(async (nested) => {
          await nested('effects').insert({ id: 'undone' });
          throw new Error('no such item');
        });
        await failing.catch(() => undefined);
      });
      expect(await database.effects()).toEqual(['kept']);
    });

    it('rejects queries built from the handle once the transaction is over', async () => {
      const late: (() => Promise<unknown>)[] = [];
      await knexUnitOfWork(db).run(OPTIONS, async ({ handle }) => {
        const query = handle('effects').insert({ id: 'late query' });
        late.push(async () => query);
        await handle.transaction(async (nested) => {
          late.push(async () => nested('effects').insert({ id: 'late nested' }));
        });
      });
      for (const insert of late) await expect(insert()).rejects.toThrow('already complete');
      expect(late).toHaveLength(2);
      expect(await database.effects()).toEqual([]);
    });

    it('commits its writes, even if the handle is used before COMMIT is sent', async () => {
      let late: Promise<unknown> | undefined;
      await knexUnitOfWork(db).run(OPTIONS, async ({ handle }) => {
        const insert = async () => handle('effects').insert({ id: 'one' });
        await insert();
        setImmediate(() => {
          // This insert would fail, and the transaction with it.
          late = insert();
          late.catch(() => undefined);
        });
      });
      await expect(late).rejects.toThrow(TransactionOverError);
      expect(await database.effects()).toEqual(['one']);
    });

    it('throws the reason why it did not commit', async () => {
      const run = knexUnitOfWork(db).run(OPTIONS, async ({ handle }) => {
        await handle.raw('SELECT 1/0').catch(() => undefined);
      });
      await expect(run).rejects.toThrow(TransactionAbortedError);
    });

    it('distinguishes an operator with a question mark from a placeholder', async () => {
      const rows = await onPostgres(knexUnitOfWork(db)).run(OPTIONS, (tx) =>
        tx.query(`SELECT '{"a": 1}'::jsonb ? $1::text AS found`, ['a']),
      );
      expect(rows).toEqual([{ found: true }]);
    });

    it.each([
      ['a quoted name', `SELECT $1::text AS "a$2""$1?"`, 'a$2"$1?'],
      ['a string', `SELECT $1::text AS name WHERE 'it''s $2?' LIKE 'it_s %$2_'`, 'name'],
      ['an escaped string', String.raw`SELECT $1::text AS name WHERE E'\'$2' LIKE '_$2'`, 'name'],
    ])('distinguishes the text of %s from a placeholder', async (_, text, name) => {
      const rows = await onPostgres(knexUnitOfWork(db)).run(OPTIONS, (tx) =>
        tx.query(text, ['one']),
      );
      expect(rows).toEqual([{ [name]: 'one' }]);
    });
  });
});

describeUnitOfWork(kysely);

describe('kyselyUnitOfWork', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['a dialect', new PostgresDialect({ pool: openPostgresPool('postgres://127.0.0.1/shop') })],
  ])('rejects %s', (_, db) => {
    const create = () => kyselyUnitOfWork(db as unknown as Kysely<Tables>);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('a Kysely of kysely 0.28 or later');
  });

  describe('on a real server', () => {
    const database = useDatabase();

    function open(): Kysely<Tables> {
      return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: database.pool }) });
    }

    it('rejects a transaction in place of a database', async () => {
      await open()
        .transaction()
        .execute(async (transaction) => {
          expect(() => kyselyUnitOfWork<Tables>(transaction)).toThrow(IdempotencyOptionsError);
        });
    });

    it('rejects a query that was built before the transaction was over', async () => {
      let late: () => Promise<unknown> = () => Promise.resolve();
      await kyselyUnitOfWork(open()).run(OPTIONS, async ({ handle }) => {
        const query = handle.insertInto('effects').values({ id: 'late' });
        late = () => query.execute();
      });
      await expect(late()).rejects.toThrow('already committed');
      expect(await database.effects()).toEqual([]);
    });

    it('commits its writes, even if the handle is used before COMMIT is sent', async () => {
      let late: Promise<unknown> | undefined;
      await kyselyUnitOfWork(open()).run(OPTIONS, async ({ handle }) => {
        const insert = async () => handle.insertInto('effects').values({ id: 'one' }).execute();
        await insert();
        setImmediate(() => {
          // This insert would fail, and the transaction with it.
          late = insert();
          late.catch(() => undefined);
        });
      });
      await expect(late).rejects.toThrow(TransactionOverError);
      expect(await database.effects()).toEqual(['one']);
    });

    it('throws the reason why it did not commit', async () => {
      const run = kyselyUnitOfWork(open()).run(OPTIONS, async ({ handle }) => {
        const twice = [{ id: 'one' }, { id: 'one' }];
        const inserting = handle.insertInto('effects').values(twice).execute();
        await inserting.catch(() => undefined);
      });
      await expect(run).rejects.toThrow(TransactionAbortedError);
    });

    it('preserves the columns of its own statements under plugins', async () => {
      const db = open().withPlugin(new CamelCasePlugin());
      const rows = await onPostgres(kyselyUnitOfWork(db)).run(OPTIONS, (tx) =>
        tx.query('SELECT $1::integer AS lease_left', [7]),
      );
      expect(rows).toEqual([{ lease_left: 7 }]);
    });

    it('survives the loss of a connection during checkout, with an error listener on each', async () => {
      const relay = await startHastyRelay(database.url);
      const opened = await kysely.open(relay.url, 1);
      try {
        let calls = 0;
        const run = opened.unitOfWork.run(OPTIONS, async () => void (calls += 1));
        await expect(run).rejects.toThrow();
        expect(calls).toBe(0);
      } finally {
        await opened.close();
        await relay.stop();
      }
    });
  });
});
