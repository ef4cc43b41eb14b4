export { RECONCILE, Reconciliation } from '../../../../lib/core/recovery/reconcile.js';
