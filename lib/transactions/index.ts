export {
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
  type TransactionValue,
} from '../core/transaction/unit-of-work.js';
export { PostgresUnitOfWork } from './shared/postgres-unit-of-work.js';
