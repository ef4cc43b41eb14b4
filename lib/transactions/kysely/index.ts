export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export { kyselyUnitOfWork } from './kysely-unit-of-work.js';
export { fromKysely } from './kysely-executor.js';
export type {
  PostgresConnection,
  PostgresExecutor,
  PostgresQuery,
  PostgresResult,
} from '../shared/connections.js';
