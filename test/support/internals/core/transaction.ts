export {
  DeferredTransaction,
  type TransactionEnd,
} from '../../../../lib/core/transaction/deferred-transaction.js';
export { OperationTransaction } from '../../../../lib/core/transaction/operation-transaction.js';
export {
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
  type TransactionValue,
} from '../../../../lib/core/transaction/unit-of-work.js';
