import type { Pool, PoolClient } from 'pg';
import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { CheckedOutClient } from '../shared/checked-out-client.js';
import { isPgPool } from '../shared/pg-pool.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import type { SqlTransaction } from '../shared/sql-transaction.js';

class DrizzleUnitOfWork<Db extends DrizzleDatabase> extends PostgresUnitOfWork<
  DrizzleTransaction<Db>
> {
  constructor(
    private readonly pool: Pool,
    private readonly database: (client: PoolClient) => Db,
  ) {
    super();
    if (!isPgPool(pool) || typeof database !== 'function') {
      throw new IdempotencyOptionsError(
        'drizzleUnitOfWork: pass a Pool of pg 8 and a function: drizzleUnitOfWork(pool, (client) => drizzle(client, { schema })).',
      );
    }
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<DrizzleTransaction<Db>>) => Promise<Result>,
  ): Promise<Result> {
    const checkedOut = await CheckedOutClient.from(this.pool);
    try {
      const client = new TransactionClient(checkedOut, options);
      // Drizzle calls only `query`.
      const db = this.database(client as unknown as PoolClient);
      return (await db.transaction(async (handle: DrizzleTransaction<Db>) => {
        try {
          return await work({
            handle,
            query: async (text, values) => (await checkedOut.query(text, [...values])).rows,
            lost: checkedOut.lost,
            cut: () => checkedOut.cut(),
          });
        } finally {
          client.end();
        }
      })) as Result;
    } finally {
      checkedOut.release();
    }
  }
}

/**
 * Transactions of Drizzle on node-postgres, for transactional operations: the handler's writes and the record commit
 * together. Does not end the pool.
 *
 * @param pool - a `Pool` of pg 8 on the database of the records; `db.$client` if Drizzle has opened it. Drizzle alone
 * would lose a connection with each failed BEGIN, and the process with a connection that fails between statements.
 * @param database - `drizzle()` with your settings, except the pool. Called for each transaction.
 * @throws {@link IdempotencyOptionsError} when an argument is invalid.
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
): PostgresUnitOfWork<DrizzleTransaction<Db>> {
  return new DrizzleUnitOfWork(pool, database);
}

/** The part of a Drizzle database that is used. Structural, so that it fits every schema. */
export interface DrizzleDatabase {
  // Each schema has its own type of transaction.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  transaction(work: (transaction: any) => Promise<any>, config?: object): Promise<any>;
}

/**
 * What handlers get by `@IdempotencyTransaction()`: the argument of the callback of `db.transaction`. It throws once
 * the transaction is over.
 *
 * @example
 * ```ts
 * type Db = NodePgDatabase<typeof schema>;
 *
 * refund(@IdempotencyTransaction() transaction: DrizzleTransaction<Db>) {
 *   return transaction.insert(refunds).values({ … }).returning();
 * }
 * ```
 */
export type DrizzleTransaction<Db extends DrizzleDatabase> = Parameters<
  Parameters<Db['transaction']>[0]
>[0];

/**
 * The client of Drizzle's transaction. Replaces its BEGIN, COMMIT and ROLLBACK by those of {@link CheckedOutClient},
 * which checks their outcome; otherwise passes queries to the connection.
 */
class TransactionClient {
  private state: 'new' | 'open' | 'ending' = 'new';

  constructor(
    private readonly checkedOut: CheckedOutClient,
    private readonly options: TransactionOptions,
  ) {}

  /** From now on, COMMIT and ROLLBACK end the transaction. */
  end(): void {
    this.state = 'ending';
  }

  query(...request: [{ readonly text: string }, ...unknown[]]): unknown {
    const [{ text }] = request;
    if (this.state === 'new' && /^begin\b/i.test(text)) {
      this.state = 'open';
      return this.checkedOut.begin(this.options);
    }
    if (this.state === 'ending' && /^commit$/i.test(text)) return this.checkedOut.commit();
    if (this.state === 'ending' && /^rollback$/i.test(text)) return this.checkedOut.rollBack();
    return this.checkedOut.query(...request);
  }
}
