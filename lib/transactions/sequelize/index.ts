export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export {
  sequelizeUnitOfWork,
  type SequelizeInstance,
  type SequelizeTransactionOptions,
} from './sequelize-unit-of-work.js';
