export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export type { PgConnection, PgPool, PgResult, PgTransaction } from '../shared/pg-pool.js';
export { pgUnitOfWork } from './pg-unit-of-work.js';
export { fromPg } from './pg-executor.js';
export type {
  PostgresConnection,
  PostgresExecutor,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../shared/connections.js';
