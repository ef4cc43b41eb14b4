// What applications name. The types of single options are members of IdempotencyOptions and IdempotencyModuleOptions.
export { IdempotencyModule } from './nest/idempotency.module.js';
export { Idempotent } from './nest/idempotent.decorator.js';
export type {
  IdempotentMethodDecorator,
  IdempotentMethodOptions,
} from './nest/options/call-options.js';
// A decorator and a type, which an application imports by one name.
export { IdempotencyContext } from './nest/idempotency-context.decorator.js';
export { IdempotencyTransaction } from './nest/idempotency-transaction.decorator.js';
export {
  IdempotencyService,
  type CallOutcome,
  type IdempotentCall,
} from './nest/idempotency.service.js';
export { IdempotencyReconciler } from './nest/idempotency-reconciler.js';
export { IdempotencyRecords } from './nest/idempotency-records.js';
export type { AuditEntry, OperatorAction } from './core/operator/operator-options.js';
export type {
  ActionOptions,
  ActionResult,
  ActOptions,
  GivenOutcome,
} from './core/operator/operator.js';
export type { RecordRef, RecordSheet } from './core/operator/record-sheet.js';
export type {
  IdempotencyModuleOptions,
  IdempotencyOptions,
  IdempotencyOptionsFactory,
} from './nest/options/idempotency-options.js';
export {
  currentIdempotencyContext,
  currentIdempotencyTransaction,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
} from './core/operation/execution-scope.js';
export { severityOf, type IdempotencyEvent, type ReconcileReport } from './core/record/events.js';
export { IdempotencyEvents } from './core/record/idempotency-events.js';
export { IdempotencyMeter } from './core/meter/idempotency-meter.js';
export type { MeterReading } from './core/meter/meter-reading.js';
export { IdempotencyStore, type Finding, type Verdict } from './core/store/idempotency-store.js';
export { IdempotencyHealth } from './observability/health/idempotency-health.js';
export { envelopeKeys, staticKeys, type SecretKeys } from './core/payload/secret-keys.js';
export type { Recover, Recovery } from './core/operation/recovery.js';
export {
  keepResponses,
  keepSuccesses,
  type OutcomePolicy,
} from './core/operation/outcome-policy.js';
export {
  AuditUnavailableError,
  FailureReplayedError,
  IdempotencyError,
  IdempotencyOptionsError,
  NoIdempotencyContextError,
  NoTransactionError,
  OperationRejectedError,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreReplyMismatchedError,
  StoreUnavailableError,
  ValueNotStorableError,
  isIdempotencyError,
  type IdempotencyErrorCode,
} from './core/errors/errors.js';
export type { Duration } from './core/options/duration.js';
export { ContentNotComparableError } from './core/record/canonical-json.js';
export { IdempotencyProblem, type ProblemDocument } from './transports/http/problem.js';
export { EXPOSED_HEADERS } from './transports/http/http-options.js';
export type { RequestContent } from './transports/common/request-content.js';
export type { OutcomeCodec } from './core/record/outcome-codec.js';
export { jsonCodec } from './codecs/json/json-codec.js';
