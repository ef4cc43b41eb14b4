import openKnex, { type Knex } from 'knex';
import { fromKnex, knexUnitOfWork } from 'nestjs-idempotency/knex';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { onPostgres } from './on-postgres.js';

/** It reports every lost connection. */
const silent = { warn: () => undefined, error: () => undefined };

export const knex: UnitOfWorkUnderTest<Knex.Transaction> = {
  name: 'knexUnitOfWork',
  reportsLoss: false,
  canCut: false,
  open: async (url, connections) => {
    const pool = { min: 0, max: connections };
    const db = openKnex({ client: 'pg', connection: url, pool, log: silent });
    return {
      unitOfWork: onPostgres(knexUnitOfWork(db)),
      executor: fromKnex(db),
      insert: (transaction, id) => transaction('effects').insert({ id }),
      close: () => db.destroy(),
    };
  },
};
