export type { EngineAttempt } from '../../../../lib/core/engine/attempt-services.js';
export type { Decision } from '../../../../lib/core/engine/begin-protocol.js';
export { IdempotencyEngine } from '../../../../lib/core/engine/idempotency-engine.js';
export { LeaseKeeper } from '../../../../lib/core/engine/lease-keeper.js';
export { entryOf, type Entry } from '../../../../lib/core/engine/run-operation.js';
export { LocalAttempts } from '../../../../lib/core/engine/local-attempts.js';
export {
  INITIAL_STATE,
  NO_NATIVE_RESPONSE_GRACE_MS,
  NO_RESPONSE_GRACE_MS,
  type ResponseSender,
  settle,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
  type SettlementState,
} from '../../../../lib/core/engine/settlement.js';
