import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import openKnex, { type Knex } from 'knex';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import {
  knexUnitOfWork,
  TransactionAbortedError,
  TransactionOverError,
} from 'nestjs-idempotency/knex';
import { knex } from './adapters/knex.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

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
      const rows = await knexUnitOfWork(db).run(OPTIONS, (tx) =>
        tx.query(`SELECT '{"a": 1}'::jsonb ? $1::text AS found`, ['a']),
      );
      expect(rows).toEqual([{ found: true }]);
    });

    it.each([
      ['a quoted name', `SELECT $1::text AS "a$2""$1?"`, 'a$2"$1?'],
      ['a string', `SELECT $1::text AS name WHERE 'it''s $2?' LIKE 'it_s %$2_'`, 'name'],
      ['an escaped string', String.raw`SELECT $1::text AS name WHERE E'\'$2' LIKE '_$2'`, 'name'],
    ])('distinguishes the text of %s from a placeholder', async (_, text, name) => {
      const rows = await knexUnitOfWork(db).run(OPTIONS, (tx) => tx.query(text, ['one']));
      expect(rows).toEqual([{ [name]: 'one' }]);
    });
  });
});
