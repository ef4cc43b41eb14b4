export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export {
  typeOrmUnitOfWork,
  type TypeOrmConnection,
  type TypeOrmDataSource,
  type TypeOrmIsolationLevel,
  type TypeOrmQueryRunner,
} from './typeorm-unit-of-work.js';
export { fromTypeOrm } from './typeorm-executor.js';
export type {
  PostgresConnection,
  PostgresExecutor,
  PostgresQuery,
  PostgresResult,
} from '../shared/connections.js';
