import type { Pool, PoolClient } from 'pg';
import type { TransactionOptions, UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { CheckedOutClient } from '../shared/checked-out-client.js';
import { CheckedOutConnection } from '../shared/checked-out-connection.js';
import {
  callbackPoolOf,
  type MysqlConnections,
  type MysqlQuery,
} from '../shared/mysql-connections.js';
import { throwIfSerializable } from '../shared/mysql-guard.js';
import type { MysqlTransaction } from '../shared/mysql-transaction.js';
import { MysqlUnitOfWork } from '../shared/mysql-unit-of-work.js';
import { isPgPool } from '../shared/pg-pool.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import type { SqlTransaction } from '../shared/sql-transaction.js';

class DrizzleOnPostgres<Db extends DrizzleDatabase> extends PostgresUnitOfWork<
  DrizzleTransaction<Db>
> {
  constructor(
    private readonly pool: Pool,
    private readonly database: (client: PoolClient) => Db,
  ) {
    super();
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

class DrizzleOnMysql<Db extends DrizzleDatabase> extends MysqlUnitOfWork<DrizzleTransaction<Db>> {
  constructor(
    private readonly connections: MysqlConnections,
    private readonly database: (connection: never) => Db,
  ) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<DrizzleTransaction<Db>>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable('drizzleUnitOfWork', options);
    const checkedOut = await CheckedOutConnection.from(this.connections);
    try {
      const connection = new TransactionConnection(checkedOut, options);
      // Drizzle calls only `query`.
      const db = this.database(connection as never);
      return (await db.transaction(async (handle: DrizzleTransaction<Db>) => {
        try {
          return await work({
            handle,
            execute: (text, values) => checkedOut.run(text, values),
            lost: checkedOut.lost,
            cut: () => checkedOut.cut(),
          });
        } finally {
          connection.end();
        }
      })) as Result;
    } finally {
      checkedOut.release();
    }
  }
}

/**
 * Transactions of Drizzle on node-postgres or mysql2, for transactional operations: the handler's writes and the record commit
 * together. Does not end the pool.
 *
 * @param pool - a `Pool` of pg 8 or of `mysql2/promise` on the database of the records; `db.$client` if Drizzle has opened
 * it. Drizzle alone would lose a connection with each failed BEGIN, and the process with a connection that fails between
 * statements.
 * @param database - `drizzle()` with your settings, except the pool. Called for each transaction.
 * @returns a `PostgresUnitOfWork` or a `MysqlUnitOfWork`, by the pool.
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
): PostgresUnitOfWork<DrizzleTransaction<Db>>;
export function drizzleUnitOfWork<Db extends DrizzleDatabase, Connection>(
  pool: DrizzleMysqlPool<Connection>,
  database: (connection: Connection) => Db,
): MysqlUnitOfWork<DrizzleTransaction<Db>>;
export function drizzleUnitOfWork<Db extends DrizzleDatabase>(
  pool: unknown,
  database: (connection: never) => Db,
): UnitOfWork<DrizzleTransaction<Db>> {
  if (typeof database === 'function') {
    if (isPgPool(pool))
      return new DrizzleOnPostgres(pool as Pool, database as (client: PoolClient) => Db);
    const connections = callbackPoolOf(pool);
    if (connections !== undefined) return new DrizzleOnMysql(connections, database);
  }
  throw new IdempotencyOptionsError(
    'drizzleUnitOfWork: pass a Pool of pg 8 or mysql2/promise and a function: drizzleUnitOfWork(pool, (client) => drizzle(client, { schema })).',
  );
}

/** A pool of `mysql2/promise`. Structural, to compile without mysql2. `Connection`: its `PoolConnection`. */
export interface DrizzleMysqlPool<Connection> {
  readonly pool: unknown;
  getConnection(): Promise<Connection>;
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

/** The connection of Drizzle's transaction on mysql2, likewise with those of {@link CheckedOutConnection}. */
class TransactionConnection {
  private state: 'new' | 'open' | 'ending' = 'new';

  constructor(
    private readonly checkedOut: CheckedOutConnection,
    private readonly options: TransactionOptions,
  ) {}

  /** From now on, COMMIT and ROLLBACK end the transaction. */
  end(): void {
    this.state = 'ending';
  }

  async query(query: MysqlQuery, values: readonly unknown[] = []): Promise<[unknown, unknown]> {
    const { sql } = query;
    if (this.state === 'new' && /^begin$/i.test(sql)) {
      this.state = 'open';
      await this.checkedOut.begin(this.options);
      return NOTHING;
    }
    if (this.state === 'ending' && /^commit$/i.test(sql)) {
      await this.checkedOut.commit();
      return NOTHING;
    }
    if (this.state === 'ending' && /^rollback$/i.test(sql)) {
      await this.checkedOut.rollBack();
      return NOTHING;
    }
    return this.checkedOut.query(query, values);
  }
}

/** Where mysql2 has a result of a write. */
const NOTHING: [unknown, unknown] = [{ affectedRows: 0, insertId: 0 }, undefined];
