import { describe, expect, it } from '@jest/globals';
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import {
  kyselyUnitOfWork,
  TransactionAbortedError,
  TransactionOverError,
} from 'nestjs-idempotency/kysely';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { kysely, type Tables } from './adapters/kysely.js';
import { startHastyRelay } from './support/hasty-relay.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

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
      const rows = await kyselyUnitOfWork(db).run(OPTIONS, (tx) =>
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
