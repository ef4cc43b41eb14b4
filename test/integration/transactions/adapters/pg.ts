import type { Pool } from 'pg';
import { fromPg, pgUnitOfWork, type PgTransaction } from 'nestjs-idempotency/pg';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';

export const pg: UnitOfWorkUnderTest<PgTransaction<Pool>> = {
  name: 'pgUnitOfWork',
  reportsLoss: true,
  canCut: true,
  open: async (url, connections) => {
    const pool = openPostgresPool(url, { max: connections });
    return {
      unitOfWork: pgUnitOfWork(pool),
      executor: fromPg(pool),
      insert: (transaction, id) => transaction.query('INSERT INTO effects VALUES ($1)', [id]),
      close: () => pool.end(),
    };
  },
};
