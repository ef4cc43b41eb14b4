export type { Decision } from '../../../../lib/core/engine/decision.js';
export { IdempotencyEngine } from '../../../../lib/core/engine/idempotency-engine.js';
export { LeaseKeeper } from '../../../../lib/core/engine/lease-keeper.js';
