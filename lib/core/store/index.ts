// For authors of stores, and for what reads records by their keys. It loads no conformance kit.
export type { BreakerState } from '../record/events.js';
export { recordKey, type RecordIdentity } from '../record/record-key.js';
export type { Scope, ScopePart } from '../record/scope.js';
export {
  UNKNOWN_FENCE,
  type FinishedRecord,
  type FinishedState,
  type Fingerprint,
  type InProgressRecord,
  type Lease,
  type Outcome,
  type OwnerToken,
  type RecordKey,
  type RecordState,
  type ReleasedRecord,
  type StoredRecord,
} from '../record/record.js';
export type { StoreErrorOptions } from '../errors/errors.js';
export { ConditionalStore, type LoadedRecord } from './conditional-store.js';
export { DelegatingStore } from './delegating-store.js';
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
} from './idempotency-store.js';
export { transitions, type Transition } from './record-transitions.js';
export type { TransactionalRecords } from './transactional-records.js';
