export type { Attempt, FinalOutcome, Settlement } from '../../../../lib/core/attempt.js';
export type { Claim } from '../../../../lib/core/claim.js';
export { originOf, parseOrigin } from '../../../../lib/core/origin.js';
export {
  checkEngineOptions,
  checkProtocolOptions,
  ENGINE_DEFAULTS,
  finishedRetentionMs,
  PROTOCOL_DEFAULTS,
  unfinishedRetentionMs,
  type EngineOptions,
  type OutcomeSummary,
  type ProtocolOptions,
} from '../../../../lib/core/options.js';
export {
  asksToKeep,
  keepSuccesses,
  type OutcomePolicy,
} from '../../../../lib/core/outcome-policy.js';
