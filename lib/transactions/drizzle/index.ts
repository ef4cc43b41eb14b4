export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export {
  drizzleUnitOfWork,
  type DrizzleDatabase,
  type DrizzleMysqlPool,
  type DrizzleTransaction,
} from './drizzle-unit-of-work.js';
export { fromDrizzle, type DrizzleClientOwner } from './drizzle-executor.js';
export type {
  PostgresConnection,
  PostgresExecutor,
  PostgresQuery,
  PostgresResult,
} from '../shared/connections.js';
