export { TransactionAbortedError, TransactionOverError } from '../../core/transaction-errors.js';
export { kyselyUnitOfWork } from './kysely-unit-of-work.js';
