export {
  IdempotencyOptionsError,
  OperationRejectedError,
  rejectionError,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
  ValueNotStorableError,
} from '../../../lib/core/errors/errors.js';
export {
  REJECTIONS,
  type Rejection,
  type RejectionCode,
} from '../../../lib/core/errors/rejections.js';
export { nodeClock, type Clock, type ClockTimer } from '../../../lib/core/util/clock.js';
export { missingPeer } from '../../../lib/core/util/missing-peer.js';
export {
  pathsIn,
  resolve,
  resolveGroup,
  type Group,
  type Schema,
} from '../../../lib/core/options/option-schema.js';
export { SymbolSlot } from '../../../lib/core/util/symbol-slot.js';
export {
  DeadlineTimer,
  jitteredPause,
  ServerClock,
  type DeadlineListener,
} from '../../../lib/core/util/time.js';
export {
  canonicalJson,
  checkDepth,
  containersIn,
  ContentNotComparableError,
  MAX_CONTENT_DEPTH,
} from '../../../lib/core/record/canonical-json.js';
export { selectMembers } from '../../../lib/core/record/content-selection.js';
export type {
  BreakerEvent,
  IdempotencyEvent,
  LeaseLossReason,
  RejectionReason,
} from '../../../lib/core/record/events.js';
export { EVENT_SEVERITY } from '../../../lib/core/record/events.js';
export { IdempotencyEvents } from '../../../lib/core/record/idempotency-events.js';
export { fingerprint, NO_FINGERPRINT } from '../../../lib/core/record/fingerprint.js';
export {
  newOwnerToken,
  newProbeKey,
  notePlace,
  OwnerTokens,
  recordKey,
} from '../../../lib/core/record/record-key.js';
export {
  NOT_KEPT,
  type Fingerprint,
  type Lease,
  type Outcome,
  type OwnerToken,
  type RecordKey,
  type RecordState,
  type StoredRecord,
} from '../../../lib/core/record/record.js';
export {
  DeferredTransaction,
  type TransactionEnd,
} from '../../../lib/core/transaction/deferred-transaction.js';
export { OperationTransaction } from '../../../lib/core/transaction/operation-transaction.js';
export {
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
} from '../../../lib/core/transaction/unit-of-work.js';
export { IdempotencyStore } from '../../../lib/core/store/idempotency-store.js';
export type {
  Abandoned,
  AbandonedPage,
  AbandonedRecord,
  Amend,
  AmendedRecord,
  AmendReply,
  Begin,
  BeginReply,
  Complete,
  CompleteReply,
  Extend,
  ExtendReply,
  IdempotencyRecord,
  List,
  Release,
  ReleaseReply,
} from '../../../lib/core/record/commands.js';
export type { StoreObserver } from '../../../lib/core/store/idempotency-store.js';
export { notedServices } from '../../../lib/core/store/diagnosis/check-steps.js';
export { ServiceNote } from '../../../lib/core/store/service-note.js';
export * as transitions from '../../../lib/core/store/record-transitions.js';
export type { TransactionalRecords } from '../../../lib/core/store/transactional-records.js';
export {
  REJECTION_CODES,
  type Attempt,
  type FinalOutcome,
  type Settlement,
} from '../../../lib/core/operation/attempt.js';
export {
  originOf,
  parseOrigin,
  type OperationRequest,
} from '../../../lib/core/operation/operation-request.js';
export { millisecondsOf, type InMilliseconds } from '../../../lib/core/options/duration.js';
export {
  DEFAULT_LIMITS,
  finishedRetentionMs,
  LIMITS,
  OUTCOME,
  type OutcomeOptions,
  PROTOCOL,
  PROTOCOL_DEFAULTS,
  unfinishedRetentionMs,
  type LimitsOptions,
  type ProtocolOptions,
  type ResolvedProtocolOptions,
} from '../../../lib/core/operation/options.js';
export {
  asksToKeep,
  keepSuccesses,
  type OutcomePolicy,
  type OutcomeSummary,
} from '../../../lib/core/operation/outcome-policy.js';
export type { Services } from '../../../lib/core/operation/recovery.js';
export {
  ExecutionScope,
  executionScope,
  InnerScope,
  contextOf,
} from '../../../lib/core/operation/execution-scope.js';
export type { IdempotencyContext } from '../../../lib/core/operation/idempotency-context.js';
export { Telemetries } from '../../../lib/core/telemetry/telemetries.js';
export type { Decision } from '../../../lib/core/engine/begin-protocol.js';
export {
  Digests,
  type DigestProtection,
  type RecordName,
} from '../../../lib/core/record/digests.js';
export {
  Annotations,
  annotationsIn,
  noteOfEnd,
  traceIn,
} from '../../../lib/core/record/annotations.js';
export { IdempotencyEngine } from '../../../lib/core/engine/idempotency-engine.js';
export { LeaseKeeper } from '../../../lib/core/engine/lease-keeper.js';
export { entryOf, type Entry } from '../../../lib/core/engine/run-operation.js';
export {
  LocalAttempts,
  RenewedMap,
  type KeptAttempt,
} from '../../../lib/core/engine/local-attempts.js';
export {
  INITIAL_STATE,
  type ResponseSender,
  settle,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
  type SettlementState,
} from '../../../lib/core/engine/settlement.js';
export { RECONCILE, Reconciliation } from '../../../lib/core/recovery/reconcile.js';
