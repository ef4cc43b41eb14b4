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
  DEFAULT_LIMITS,
  finishedRetentionMs,
  LIMITS,
  OUTCOME,
  PROTOCOL,
  PROTOCOL_DEFAULTS,
  unfinishedRetentionMs,
  type LimitsOptions,
  type ProtocolOptions,
  type ResolvedProtocolOptions,
} from '../../../../lib/core/operation/options.js';
export {
  asksToKeep,
  keepSuccesses,
  type OutcomePolicy,
  type OutcomeSummary,
} from '../../../../lib/core/operation/outcome-policy.js';
export type { Services } from '../../../../lib/core/operation/recovery.js';
export {
  ExecutionScope,
  executionScope,
  InnerScope,
} from '../../../../lib/core/operation/execution-scope.js';
export type { IdempotencyContext } from '../../../../lib/core/operation/idempotency-context.js';
