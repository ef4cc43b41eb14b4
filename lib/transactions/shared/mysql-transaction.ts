import type { OpenTransaction } from '../../core/transaction/unit-of-work.js';
import type { MysqlValue } from './mysql-connections.js';

/** An open transaction of MySQL or MariaDB: the store's own statements run in it, too. */
export interface MysqlTransaction<Handle = unknown> extends OpenTransaction<Handle> {
  /**
   * Runs one statement, with a `?` for each value. Returns the rows that it selects, as objects. Without values it is sent
   * as text, not prepared: MySQL prepares no SAVEPOINT.
   */
  execute(text: string, values?: readonly MysqlValue[]): Promise<readonly object[]>;
}

export function isMysqlTransaction(transaction: OpenTransaction): transaction is MysqlTransaction {
  return 'execute' in transaction && typeof transaction.execute === 'function';
}
