export { TransactionAbortedError, TransactionOverError } from '../shared/guarded-handle.js';
export { knexUnitOfWork } from './knex-unit-of-work.js';
