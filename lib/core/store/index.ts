// For authors of stores, and for what reads records by their keys. It loads no conformance kit.
export {
  blobName,
  BlobStore,
  BlobUnavailableError,
  type BlobName,
  type GetOptions,
  type PutHints,
} from '../payload/blob-store.js';
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
export type {
  Abandoned,
  AbandonedPage,
  AbandonedRecord,
  Acquisition,
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
  Inspect,
  List,
  ListedRecord,
  RecordPage,
  Release,
  ReleaseReply,
  StopWatching,
  TimedCommand,
  Watch,
} from '../record/commands.js';
export {
  IdempotencyStore,
  type Finding,
  type StoreObserver,
  type StoreWarning,
  type Verdict,
} from './idempotency-store.js';
export { transitions, type Transition } from './record-transitions.js';
export type { TransactionalCompletion, TransactionalRecords } from './transactional-records.js';
