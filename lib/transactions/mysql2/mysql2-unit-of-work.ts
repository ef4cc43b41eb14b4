import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runOn } from '../shared/checked-out.js';
import { CheckedOutConnection } from '../shared/checked-out-connection.js';
import {
  callbackPoolOf,
  type MysqlConnections,
  type MysqlPool,
} from '../shared/mysql-connections.js';
import { throwIfSerializable } from '../shared/mysql-guard.js';
import type { MysqlTransaction } from '../shared/mysql-transaction.js';
import { MysqlUnitOfWork } from '../shared/mysql-unit-of-work.js';

/** What a handler writes through, as mysql2's promises do. `Result`: rows, or the header of a write. */
export interface Mysql2Transaction {
  /** Sends a statement as text. @returns the result and the fields. */
  query<Result = unknown>(sql: string, values?: readonly unknown[]): Promise<[Result, unknown]>;
  /** Sends a prepared statement. @returns the same. */
  execute<Result = unknown>(sql: string, values?: readonly unknown[]): Promise<[Result, unknown]>;
}

class Mysql2UnitOfWork extends MysqlUnitOfWork<Mysql2Transaction> {
  private readonly connections: MysqlConnections;

  constructor(pool: MysqlPool) {
    super();
    const connections = callbackPoolOf(pool);
    if (connections === undefined) {
      throw new IdempotencyOptionsError(
        'mysql2UnitOfWork: the pool must be a pool of mysql2 or mysql2/promise, not a single connection.',
      );
    }
    this.connections = connections;
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Mysql2Transaction>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable('mysql2UnitOfWork', options);
    const checkedOut = await CheckedOutConnection.from(this.connections);
    return runOn(checkedOut, options, () => work(openTransaction(checkedOut)));
  }
}

function openTransaction(checkedOut: CheckedOutConnection): MysqlTransaction<Mysql2Transaction> {
  return {
    handle: {
      query: (sql, values) => checkedOut.query(sql, values) as Promise<[never, unknown]>,
      execute: (sql, values) => checkedOut.execute(sql, values) as Promise<[never, unknown]>,
    },
    execute: (text, values) => checkedOut.run(text, values),
    lost: checkedOut.lost,
    cut: () => checkedOut.cut(),
  };
}

/**
 * Transactions of mysql2, on connections of the application's pool, for transactional operations: the handler's writes and
 * the record commit together. Does not end the pool. After a deadlock or a lock wait timeout the handle rejects further
 * statements: the transaction is rolled back, as a conflict.
 *
 * @param pool - of `mysql2` or `mysql2/promise`, on the database of the records. Each request of a transactional operation
 * holds one of its connections until its response.
 * @throws {@link IdempotencyOptionsError} when it is not a pool.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [POOL],
 *   useFactory: (pool: Pool) => ({ store: mysqlStore({ url }), unitOfWork: mysql2UnitOfWork(pool) }),
 * });
 * ```
 */
export function mysql2UnitOfWork(pool: MysqlPool): MysqlUnitOfWork<Mysql2Transaction> {
  return new Mysql2UnitOfWork(pool);
}
