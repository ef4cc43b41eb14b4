import { Kysely, PostgresDialect, type Transaction } from 'kysely';
import { fromKysely, kyselyUnitOfWork } from 'nestjs-idempotency/kysely';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';

export interface Tables {
  effects: { id: string };
}

export const kysely: UnitOfWorkUnderTest<Transaction<Tables>> = {
  name: 'kyselyUnitOfWork',
  reportsLoss: false,
  canCut: false,
  open: async (url, connections) => {
    const pool = openPostgresPool(url, { max: connections });
    pool.on('connect', (client) => client.on('error', () => undefined));
    const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
    return {
      unitOfWork: kyselyUnitOfWork(db),
      executor: fromKysely(db),
      insert: (transaction, id) => transaction.insertInto('effects').values({ id }).execute(),
      close: () => db.destroy(),
    };
  },
};
