export { TransactionAbortedError, TransactionOverError } from '../shared/guarded-handle.js';
export { kyselyUnitOfWork } from './kysely-unit-of-work.js';
