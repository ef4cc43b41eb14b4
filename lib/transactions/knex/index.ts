export { TransactionAbortedError, TransactionOverError } from '../../core/transaction-errors.js';
export { knexUnitOfWork } from './knex-unit-of-work.js';
