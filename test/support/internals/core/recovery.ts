export {
  RECONCILE_DEFAULTS,
  resolveReconcileOptions,
} from '../../../../lib/core/reconcile-options.js';
export { Reconciliation } from '../../../../lib/core/reconciliation.js';
