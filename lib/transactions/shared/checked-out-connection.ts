import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { asError } from '../../core/errors/errors.js';
import { CheckedOutOfPool } from './checked-out.js';
import { isTransactionControl } from './checked-out-client.js';
import {
  beginWithin,
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from './guarded-handle.js';
import type {
  MysqlConnection,
  MysqlConnections,
  MysqlQuery,
  MysqlValue,
} from './mysql-connections.js';
import { isMysqlConflict } from './mysql-unit-of-work.js';

/** A connection checked out from the pool for one transaction. */
export class CheckedOutConnection extends CheckedOutOfPool {
  private constructor(private readonly connection: MysqlConnection) {
    super();
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

  query(sql: string | MysqlQuery, values: readonly unknown[] = []): Promise<[unknown, unknown]> {
    return this.guarded('query', sql, values);
  }

  execute(sql: string | MysqlQuery, values: readonly unknown[] = []): Promise<[unknown, unknown]> {
    return this.guarded('execute', sql, values);
  }

  /** For the store's statements, which are prepared if they have values. */
  async run(sql: string, values: readonly MysqlValue[] = []): Promise<readonly object[]> {
    // After a deadlock there is no transaction, and no longer a savepoint of the store: it is a conflict, not a takeover.
    if (this.rejection !== undefined) throw this.rejection();
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
    if (this.isGivenBack || this.isClean) return;
    this.rejection ??= () => new TransactionOverError();
    await this.send('query', 'ROLLBACK', []).then(
      () => (this.isClean = true),
      () => undefined,
    );
  }

  protected override giveBack(mayBeReused: boolean): void {
    if (mayBeReused) {
      this.connection.removeListener('error', this.onLost);
      this.connection.release();
    } else {
      // The listener stays: what the socket still says must not end the process.
      this.connection.destroy();
    }
  }

  private async guarded(
    method: 'query' | 'execute',
    query: string | MysqlQuery,
    values: readonly unknown[],
  ): Promise<[unknown, unknown]> {
    if (this.rejection !== undefined) throw this.rejection();
    const sql = typeof query === 'string' ? query : query.sql;
    if (isTransactionControl(sql)) throw new TransactionControlError();
    try {
      return await this.send(method, query, values);
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
    query: string | MysqlQuery,
    values: readonly unknown[],
  ): Promise<[unknown, unknown]> {
    return new Promise((resolve, reject) => {
      const options = typeof query === 'string' ? { sql: query } : query;
      const sent = { ...options, values: values as readonly MysqlValue[] };
      this.connection[method](sent, (error, result, fields) => {
        if (error === null) resolve([result, fields]);
        else reject(asError(error));
      });
    });
  }
}
