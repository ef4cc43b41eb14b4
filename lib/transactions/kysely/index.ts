export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export { kyselyUnitOfWork } from './kysely-unit-of-work.js';
export { fromKysely } from './kysely-executor.js';
export type { PostgresExecutor } from '../shared/connections.js';
