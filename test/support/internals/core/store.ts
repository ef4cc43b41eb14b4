export type {
  Abandoned,
  AbandonedPage,
  AbandonedRecord,
  Begin,
  BeginReply,
  Complete,
  CompleteReply,
  Extend,
  ExtendReply,
  IdempotencyRecord,
  IdempotencyStore,
  Release,
  ReleaseReply,
  StoreObserver,
} from '../../../../lib/core/idempotency-store.js';
export * as transitions from '../../../../lib/core/record-transitions.js';
export type { TransactionalRecords } from '../../../../lib/core/transactional-records.js';
