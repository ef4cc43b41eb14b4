export {
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
} from '../core/transaction/unit-of-work.js';
export type { MysqlTransaction } from './shared/mysql-transaction.js';
export type { MysqlValue } from './shared/mysql-connections.js';
export { MysqlUnitOfWork } from './shared/mysql-unit-of-work.js';
export { PostgresUnitOfWork } from './shared/postgres-unit-of-work.js';
export type { SqlTransaction, TransactionValue } from './shared/sql-transaction.js';
