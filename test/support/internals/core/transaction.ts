export { HeldTransaction, type TransactionEnd } from '../../../../lib/core/held-transaction.js';
export {
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
  type TransactionValue,
} from '../../../../lib/core/unit-of-work.js';
