export {
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
} from '../core/transaction/unit-of-work.js';
export { PostgresUnitOfWork } from './shared/postgres-unit-of-work.js';
export type { SqlTransaction, TransactionValue } from './shared/sql-transaction.js';
