export {
  REJECTION_CODES,
  type Attempt,
  type FinalOutcome,
  type Settlement,
} from '../../../../lib/core/operation/attempt.js';
export {
  originOf,
  parseOrigin,
  type OperationRequest,
} from '../../../../lib/core/operation/operation-request.js';
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
} from '../../../../lib/core/operation/options.js';
export {
  asksToKeep,
  keepSuccesses,
  type OutcomePolicy,
} from '../../../../lib/core/operation/outcome-policy.js';
