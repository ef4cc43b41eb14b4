import type { Pool, PoolClient } from 'pg';
import {
  type OpenTransaction,
  type TransactionOptions,
  UnitOfWork,
} from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { ConnectionLoan } from '../pg/connection-loan.js';
import { isPgPool } from '../pg/pg-pool.js';
import type { DrizzleDatabase, DrizzleTransaction } from './drizzle-types.js';
import { LoanClient } from './loan-client.js';

class DrizzleUnitOfWork<Db extends DrizzleDatabase> extends UnitOfWork<DrizzleTransaction<Db>> {
  constructor(
    private readonly pool: Pool,
    private readonly database: (client: PoolClient) => Db,
  ) {
    super();
    if (!isPgPool(pool) || typeof database !== 'function') {
      throw new IdempotencyOptionsError(
        'drizzleUnitOfWork: a Pool of pg 8 and a function are needed, as in drizzleUnitOfWork(pool, (client) => drizzle(client, { schema })).',
      );
    }
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: OpenTransaction<DrizzleTransaction<Db>>) => Promise<Result>,
  ): Promise<Result> {
    const loan = await ConnectionLoan.from(this.pool);
    try {
      const client = new LoanClient(loan, options);
      // It calls nothing but `query`.
      const db = this.database(client as unknown as PoolClient);
      return (await db.transaction(async (handle: DrizzleTransaction<Db>) => {
        try {
          return await work({
            handle,
            query: async (text, values) => (await loan.query(text, [...values])).rows,
            lost: loan.lost,
            cut: () => loan.cut(),
          });
        } finally {
          client.end();
        }
      })) as Result;
    } finally {
      loan.giveBack();
    }
  }
}

/**
 * Transactions of Drizzle on node-postgres: in the transactional mode the business writes and the record commit
 * together. It closes nothing; the pool stays the application's.
 *
 * @param pool - a `Pool` of pg 8, to the database that the records are in; where Drizzle has opened it, it is
 * `db.$client`. Drizzle alone would lose one of its connections with each BEGIN that fails, and the process with a
 * connection that breaks while no statement runs on it.
 * @param database - `drizzle()`, with what you give it besides the pool. It is called for each transaction.
 * @throws {@link IdempotencyOptionsError} when they are not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [POOL],
 *   useFactory: (pool: Pool) => ({
 *     store: postgresStore({ url }),
 *     unitOfWork: drizzleUnitOfWork(pool, (client) => drizzle(client, { schema })),
 *   }),
 * });
 * ```
 */
export function drizzleUnitOfWork<Db extends DrizzleDatabase>(
  pool: Pool,
  database: (client: PoolClient) => Db,
): UnitOfWork<DrizzleTransaction<Db>> {
  return new DrizzleUnitOfWork(pool, database);
}
