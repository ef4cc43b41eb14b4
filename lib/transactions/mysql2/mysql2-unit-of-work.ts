import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { asError, IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runOn } from '../shared/checked-out.js';
import { TransactionControlError, isTransactionControl } from '../shared/checked-out-client.js';
import {
  beginWithin,
  TransactionAbortedError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
import {
  callbackPoolOf,
  type MysqlConnection,
  type MysqlConnections,
  type MysqlPool,
  type MysqlValue,
} from '../shared/mysql-connections.js';
import type { MysqlTransaction } from '../shared/mysql-transaction.js';
import { isMysqlConflict, MysqlUnitOfWork } from '../shared/mysql-unit-of-work.js';

/** What a handler writes through, as mysql2's promises do. `Result`: rows, or the header of a write. */
export interface Mysql2Transaction {
  /** Sends a statement as text. @returns the result and the fields. */
  query<Result = unknown>(sql: string, values?: readonly unknown[]): Promise<[Result, unknown]>;
  /** Sends a prepared statement. @returns the same. */
  execute<Result = unknown>(sql: string, values?: readonly unknown[]): Promise<[Result, unknown]>;
}

/** A connection checked out from the pool for one transaction. */
class CheckedOutConnection {
  private readonly losing = new AbortController();
  /** The error of further statements, once set. */
  private rejection: (() => Error) | undefined;
  /** Whether no transaction is open, so that the connection may be reused. */
  private isClean = true;
  private isReturned = false;

  private constructor(private readonly connection: MysqlConnection) {
    connection.on('error', this.onLost);
  }

  static from(pool: MysqlConnections): Promise<CheckedOutConnection> {
    return new Promise((resolve, reject) => {
      pool.getConnection((error, connection) => {
        if (error === null || error === undefined) resolve(new CheckedOutConnection(connection));
        else reject(asError(error));
      });
    });
  }

  /** Aborted when the connection is lost. */
  get lost(): AbortSignal {
    return this.losing.signal;
  }

  async begin({ isolation, timeoutMs }: TransactionOptions): Promise<void> {
    this.isClean = false;
    const begun = async () => {
      if (isolation !== undefined) {
        // For the next transaction only.
        await this.send('query', `SET TRANSACTION ISOLATION LEVEL ${isolation}`, []);
      }
      await this.send('query', 'START TRANSACTION', []);
    };
    await beginWithin(timeoutMs, begun(), () => this.cut());
  }

  query(sql: string, values: readonly unknown[] = []): Promise<[unknown, unknown]> {
    return this.guarded('query', sql, values);
  }

  execute(sql: string, values: readonly unknown[] = []): Promise<[unknown, unknown]> {
    return this.guarded('execute', sql, values);
  }

  /** For the store's statements, which are prepared if they have values. */
  async run(sql: string, values: readonly MysqlValue[] = []): Promise<readonly object[]> {
    const [result] = await this.send(values.length === 0 ? 'query' : 'execute', sql, values);
    return Array.isArray(result) ? (result as object[]) : [];
  }

  /** @throws {@link TransactionAbortedError} the server has rolled a part or all of it back. */
  async commit(): Promise<void> {
    if (this.rejection !== undefined) throw this.rejection();
    this.rejection = () => new TransactionOverError();
    await this.send('query', 'COMMIT', []);
    this.isClean = true;
  }

  /** Never rejects: if it fails, the connection is closed, and the transaction with it. */
  async rollBack(): Promise<void> {
    if (this.isReturned || this.isClean) return;
    this.rejection ??= () => new TransactionOverError();
    await this.send('query', 'ROLLBACK', []).then(
      () => (this.isClean = true),
      () => undefined,
    );
  }

  /** Closes the connection, regardless of running statements. */
  cut(): void {
    this.rejection ??= () => new Error('The connection of the transaction was cut.');
    this.isClean = false;
    this.release();
  }

  /** Returns the connection to the pool, or closes it if a transaction is still open. */
  release(): void {
    if (this.isReturned) return;
    this.isReturned = true;
    if (this.isClean && !this.lost.aborted) {
      this.connection.removeListener('error', this.onLost);
      this.connection.release();
    } else {
      // The listener stays: what the socket still says must not end the process.
      this.connection.destroy();
    }
  }

  private async guarded(
    method: 'query' | 'execute',
    sql: string,
    values: readonly unknown[],
  ): Promise<[unknown, unknown]> {
    if (this.rejection !== undefined) throw this.rejection();
    if (isTransactionControl(sql)) throw new TransactionControlError();
    try {
      return await this.send(method, sql, values);
    } catch (error) {
      // After a deadlock the server has rolled all back, and would commit each further statement by itself; after a lock
      // wait timeout only the statement is undone, and a commit would keep half of the work.
      if (isMysqlConflict(error))
        this.rejection ??= () => new TransactionAbortedError({ cause: error });
      throw error;
    }
  }

  private send(
    method: 'query' | 'execute',
    sql: string,
    values: readonly unknown[],
  ): Promise<[unknown, unknown]> {
    return new Promise((resolve, reject) => {
      const query = { sql, values: values as readonly MysqlValue[] };
      this.connection[method](query, (error, result, fields) => {
        if (error === null) resolve([result, fields]);
        else reject(asError(error));
      });
    });
  }

  private readonly onLost = () => this.losing.abort();
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
    if (options.isolation === 'serializable') throw noSerializable();
    const checkedOut = await CheckedOutConnection.from(this.connections);
    return runOn(checkedOut, options, () => work(openTransaction(checkedOut)));
  }
}

function noSerializable(): IdempotencyOptionsError {
  return new IdempotencyOptionsError(
    'mysql2UnitOfWork: the isolation "serializable" locks the record when it is read, and duplicates would wait for the transaction: choose "repeatable read" or "read committed".',
  );
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
