export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export {
  mikroOrmUnitOfWork,
  type MikroOrmEntityManager,
  type MikroOrmInstance,
  type MikroOrmTransactionOptions,
} from './mikro-orm-unit-of-work.js';
