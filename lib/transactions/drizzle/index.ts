export { TransactionAbortedError, TransactionOverError } from '../../core/transaction-errors.js';
export { TransactionControlError } from '../pg/transaction-control.js';
export type { DrizzleDatabase, DrizzleTransaction } from './drizzle-types.js';
export { drizzleUnitOfWork } from './drizzle-unit-of-work.js';
