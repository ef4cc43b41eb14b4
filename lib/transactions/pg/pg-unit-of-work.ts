import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runOn } from '../shared/checked-out.js';
import { CheckedOutClient } from '../shared/checked-out-client.js';
import { isPgPool, type PgPool, type PgTransaction } from '../shared/pg-pool.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import type { SqlTransaction } from '../shared/sql-transaction.js';

class PgUnitOfWork<Pool extends PgPool> extends PostgresUnitOfWork<PgTransaction<Pool>> {
  constructor(private readonly pool: Pool) {
    super();
    if (!isPgPool(pool)) {
      throw new IdempotencyOptionsError(
        'pgUnitOfWork: the pool must be a Pool of pg 8, not a single Client.',
      );
    }
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<PgTransaction<Pool>>) => Promise<Result>,
  ): Promise<Result> {
    const checkedOut = await CheckedOutClient.from(this.pool);
    return runOn(checkedOut, options, () => work(openTransaction(checkedOut)));
  }
}

function openTransaction<Pool extends PgPool>(
  checkedOut: CheckedOutClient,
): SqlTransaction<PgTransaction<Pool>> {
  const query = (...request: unknown[]) => checkedOut.query(...request);
  return {
    handle: { query },
    query: async (text, values) => (await checkedOut.query(text, [...values])).rows,
    lost: checkedOut.lost,
    cut: () => checkedOut.cut(),
  };
}

/**
 * Transactions of pg, on connections of the application's pool, for transactional operations: the handler's writes and
 * the record commit together. Does not end the pool.
 *
 * @param pool - a `Pool` of pg 8 on the database of the records. Each request of a transactional operation holds one of
 * its connections until its response.
 * @throws {@link IdempotencyOptionsError} when it is not a pool.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [Pool],
 *   useFactory: (pool: Pool) => ({ store: postgresStore({ url }), unitOfWork: pgUnitOfWork(pool) }),
 * });
 * ```
 */
export function pgUnitOfWork<Pool extends PgPool>(
  pool: Pool,
): PostgresUnitOfWork<PgTransaction<Pool>> {
  return new PgUnitOfWork(pool);
}
