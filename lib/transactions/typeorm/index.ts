export { TransactionAbortedError, TransactionOverError } from '../../core/transaction-errors.js';
export type {
  TypeOrmConnection,
  TypeOrmDataSource,
  TypeOrmIsolationLevel,
  TypeOrmQueryRunner,
} from './typeorm-data-source.js';
export { typeOrmUnitOfWork } from './typeorm-unit-of-work.js';
