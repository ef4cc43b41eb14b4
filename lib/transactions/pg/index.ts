export { TransactionAbortedError, TransactionOverError } from '../../core/transaction-errors.js';
export type { PgConnection, PgPool, PgResult, PgTransaction } from './pg-pool.js';
export { pgUnitOfWork } from './pg-unit-of-work.js';
export { TransactionControlError } from './transaction-control.js';
