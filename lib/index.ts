// What applications name, and each interface that these name: else who returns one could not emit declarations.
export { IdempotencyModule } from './nest/idempotency.module.js';
export type { IdempotencyModuleExtras } from './nest/options/idempotency.module-definition.js';
export { Idempotent } from './nest/idempotent.decorator.js';
export type {
  IdempotentMethodDecorator,
  IdempotentMethodOptions,
} from './nest/options/call-options.js';
// A decorator and a type, which an application imports by one name.
export { IdempotencyContext } from './nest/idempotency-context.decorator.js';
// That type is an alias, which declarations leave for the interface.
export type { IdempotencyContext as OperationContext } from './core/operation/idempotency-context.js';
export { IdempotencyTransaction } from './nest/idempotency-transaction.decorator.js';
export {
  IdempotencyService,
  type CallOutcome,
  type IdempotentCall,
} from './nest/idempotency.service.js';
export { IdempotencyReconciler, type RecoverableCall } from './nest/idempotency-reconciler.js';
export {
  IdempotencyRecords,
  type BulkPlan,
  type Erasure,
  type ListPosition,
  type RecordFilter,
  type RecordList,
  type RecordQuery,
} from './nest/idempotency-records.js';
export type {
  AuditEntry,
  OperatorAction,
  OperatorOptions,
} from './core/operator/operator-options.js';
export type {
  ActionOptions,
  ActionResult,
  ActOptions,
  GivenOutcome,
} from './core/operator/operator.js';
export type { PossibleAction, RecordRef, RecordSheet } from './core/operator/record-sheet.js';
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
export {
  severityOf,
  type AttemptSubject,
  type Caused,
  type EventBase,
  type IdempotencyEvent,
  type OperationBase,
  type ReconcileReport,
  type StoreEventBase,
  type Traced,
} from './core/record/events.js';
export { IdempotencyEvents, type SubscribeOptions } from './core/record/idempotency-events.js';
export { IdempotencyMeter } from './core/meter/idempotency-meter.js';
export type {
  HistogramReading,
  MeterReading,
  OperationReading,
  RunningAttempt,
  StoreCommandReading,
  StoreReading,
} from './core/meter/meter-reading.js';
export type {
  SurroundedRequest,
  Surrounding,
  Telemetry,
  TelemetrySource,
} from './core/telemetry/telemetry.js';
export { IdempotencyStore, type Finding, type Verdict } from './core/store/idempotency-store.js';
export {
  IdempotencyHealth,
  type IdempotencyHealthOptions,
  type IdempotencyHealthReport,
} from './observability/health/idempotency-health.js';
export {
  envelopeKeys,
  staticKeys,
  type EnvelopeKeysOptions,
  type LoadedKeys,
  type ScopeKey,
  type SecretKeys,
  type StaticKeysOptions,
} from './core/payload/secret-keys.js';
export type {
  CompressionOptions,
  DictionariesOptions,
  OffloadOptions,
} from './core/payload/pack-options.js';
export type { ProtectDigestsOptions } from './core/payload/protect-digests.js';
export type {
  AnnotateOptions,
  EarlierAttempt,
  RecordAnnotations,
} from './core/record/annotations.js';
export type { LargeBody } from './core/record/record.js';
export type { Recover, Recovery, Services } from './core/operation/recovery.js';
export type { ReconcileOptions } from './core/recovery/reconcile.js';
export type {
  DuplicatesOptions,
  LeaseOptions,
  LimitsOptions,
  OutcomeOptions,
  StoreErrorsOptions,
  TransactionalOptions,
} from './core/operation/options.js';
export {
  keepResponses,
  keepSuccesses,
  type OutcomePolicy,
  type OutcomeSummary,
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
export { EXPOSED_HEADERS, type HttpOptions } from './transports/http/http-options.js';
export type { RecordedResponse } from './transports/http/response/http-response.js';
export type { MessageOptions } from './transports/message/message-options.js';
export type {
  ArgumentKeyPath,
  CallerOptions,
  FingerprintSelection,
  KeyOptions,
  KeySources,
  PayloadKeyPath,
} from './transports/common/request-options.js';
export type { BreakerOptions } from './wrappers/breaker/breaker-options.js';
export type { RequestContent } from './transports/common/request-content.js';
export type { OutcomeCodec } from './core/record/outcome-codec.js';
export { jsonCodec, type JsonCodecOptions } from './codecs/json/json-codec.js';
// What stores reply and units of work are has entries of its own, which TypeScript names where it has seen them.
export type {} from './core/store/index.js';
export type {} from './transactions/index.js';
