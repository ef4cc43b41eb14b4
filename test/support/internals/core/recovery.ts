export {
  RECONCILE_DEFAULTS,
  Reconciliation,
  resolveReconcileOptions,
} from '../../../../lib/core/recovery/reconcile.js';
