export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export { knexUnitOfWork } from './knex-unit-of-work.js';
export { fromKnex } from './knex-executor.js';
export type {
  PostgresConnection,
  PostgresExecutor,
  PostgresQuery,
  PostgresResult,
} from '../shared/connections.js';
