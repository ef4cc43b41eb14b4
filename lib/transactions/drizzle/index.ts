export { TransactionAbortedError, TransactionOverError } from '../shared/guarded-handle.js';
export { TransactionControlError } from '../shared/checked-out-client.js';
export {
  drizzleUnitOfWork,
  type DrizzleDatabase,
  type DrizzleTransaction,
} from './drizzle-unit-of-work.js';
export { fromDrizzle, type DrizzleClientOwner } from './drizzle-executor.js';
export type { PostgresExecutor } from '../shared/connections.js';
