import type { Pool, PoolClient } from 'pg';
import {
  UnitOfWork,
  type OpenTransaction,
  type TransactionOptions,
} from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { CheckedOutClient } from '../shared/checked-out-client.js';
import { isPgPool } from '../shared/pg-pool.js';

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
    const checkedOut = await CheckedOutClient.from(this.pool);
    try {
      const client = new TransactionClient(checkedOut, options);
      // It calls nothing but `query`.
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

/** What is used of a database of Drizzle. Structural, so that it fits every schema. */
export interface DrizzleDatabase {
  // Each schema has a type of transaction of its own.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  transaction(work: (transaction: any) => Promise<any>, config?: object): Promise<any>;
}

/**
 * What handlers get by `@IdempotencyTransaction()`: what `db.transaction` calls back with. Once the transaction is
 * over, it refuses.
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
 * The client that Drizzle opens its transaction on. Drizzle's own BEGIN, COMMIT and ROLLBACK become those of the
 * loan, which knows what they came to; between them it is the connection itself.
 */
class TransactionClient {
  private state: 'new' | 'open' | 'ending' = 'new';

  constructor(
    private readonly checkedOut: CheckedOutClient,
    private readonly options: TransactionOptions,
  ) {}

  /** From here on, COMMIT and ROLLBACK are those that end the transaction. */
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
