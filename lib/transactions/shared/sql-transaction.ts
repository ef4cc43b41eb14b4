import type { IsolationLevel, OpenTransaction } from '../../core/transaction/unit-of-work.js';

/** A value for `$1`, `$2`, … in a statement. */
export type TransactionValue = string | number | boolean | Uint8Array | null;

/** An open transaction of an SQL database: the store's own statements run in it, too. */
export interface SqlTransaction<Handle = unknown> extends OpenTransaction<Handle> {
  /** Runs one statement, with `$1`, `$2`, … for the values. Returns the rows that it selects or returns. */
  query(text: string, values: readonly TransactionValue[]): Promise<readonly object[]>;
}

/** The isolation levels as TypeORM and Sequelize name them. */
export const SQL_LEVELS = {
  'read committed': 'READ COMMITTED',
  'repeatable read': 'REPEATABLE READ',
  serializable: 'SERIALIZABLE',
} as const satisfies Readonly<Record<IsolationLevel, string>>;

export function isSqlTransaction(transaction: OpenTransaction): transaction is SqlTransaction {
  return 'query' in transaction && typeof transaction.query === 'function';
}
