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
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
  type TransactionValue,
} from './core/transaction/unit-of-work.js';
export { PostgresUnitOfWork } from './transactions/shared/postgres-unit-of-work.js';
export type { TransactionalRecords } from './core/store/transactional-records.js';
export {
  IdempotencyEvents,
  CRITICAL_EVENTS,
  type AttemptSubject,
  type BreakerEvent,
  type ReplyMismatchedEvent,
  type IdempotencyEvent,
  type IdempotencyEventListener,
  type IdempotencyEventType,
  type LeaseLossReason,
  type RejectionReason,
  type SubscribeOptions,
} from './core/record/events.js';
export {
  IdempotencyStore,
  type Abandoned,
  type AbandonedPage,
  type AbandonedRecord,
  type Acquisition,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Extend,
  type ExtendReply,
  type IdempotencyRecord,
  type Inspect,
  type Release,
  type ReleaseReply,
  type StopWatching,
  type StoreObserver,
  type StoreWarning,
  type Watch,
} from './core/store/idempotency-store.js';
export {
  UNKNOWN_FENCE,
  type FinishedState,
  type Fingerprint,
  type Lease,
  type Outcome,
  type OwnerToken,
  type RecordKey,
  type RecordState,
} from './core/record/record.js';
export {
  recordKey,
  type RecordIdentity,
  type Scope,
  type ScopePart,
} from './core/record/record-key.js';
export type { BreakerOptions } from './wrappers/breaker/breaker-options.js';
export type { ReconcileOptions, ReconcileReport } from './core/recovery/reconcile.js';
export type { Recover, Recovery, Services, ServiceToken } from './core/operation/recovery.js';
export type {
  DuplicatesOptions,
  LeaseOptions,
  LimitsOptions,
  OutcomeOptions,
  ProtocolOptions,
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
} from './core/util/errors.js';
export { ContentNotComparableError } from './core/record/canonical-json.js';
export {
  IdempotencyProblem,
  PROBLEM_TYPE_BASE,
  type ProblemDocument,
} from './transports/http/problem.js';
export { EXPOSED_HEADERS, type HttpOptions } from './transports/http/http-options.js';
export type {
  FingerprintOption,
  FingerprintSelection,
  CallerOptions,
  KeyOptions,
  RequestOptions,
  ScopeResult,
} from './transports/common/request-options.js';
export type { KeySyntax } from './transports/common/idempotency-key.js';
export type { RequestContent } from './transports/common/request-content.js';
export {
  kafkaOffset,
  messageHeader,
  messageId,
  type MessageKey,
} from './transports/message/keys/message-id.js';
export {
  payloadField,
  payloadKey,
  type PayloadSelection,
} from './transports/message/keys/payload-key.js';
export type { FailureAction, MessageOptions } from './transports/message/message-options.js';
export type { RejectionPayload } from './transports/call/rejection-errors.js';
export type { OutcomeCodec } from './core/record/outcome-codec.js';
export { jsonCodec } from './codecs/json/json-codec.js';
