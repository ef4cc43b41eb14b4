export type { Decision } from '../../../../lib/core/decision.js';
export { IdempotencyEngine } from '../../../../lib/core/idempotency-engine.js';
export { LeaseKeeper } from '../../../../lib/core/lease-keeper.js';
