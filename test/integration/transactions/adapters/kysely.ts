import type { Transaction } from 'kysely';
import { fromKysely, kyselyUnitOfWork } from 'nestjs-idempotency/kysely';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { onPostgres } from './on-postgres.js';

export interface Tables {
  effects: { id: string };
}

type Package = Pick<typeof import('kysely'), 'Kysely' | 'PostgresDialect'>;

/** @param load - one of its versions. */
export function kyselyBy(
  name: string,
  load: () => Promise<Package>,
): UnitOfWorkUnderTest<Transaction<Tables>> {
  return {
    name,
    reportsLoss: false,
    canCut: false,
    open: async (url, connections) => {
      const { Kysely, PostgresDialect } = await load();
      const pool = openPostgresPool(url, { max: connections });
      pool.on('connect', (client) => client.on('error', () => undefined));
      const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
      return {
        unitOfWork: onPostgres(kyselyUnitOfWork(db)),
        executor: fromKysely(db),
        insert: (transaction, id) => transaction.insertInto('effects').values({ id }).execute(),
        close: () => db.destroy(),
      };
    },
  };
}

export const kysely = kyselyBy('kyselyUnitOfWork', () => import('kysely'));
