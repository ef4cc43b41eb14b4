export { IdempotencyStore } from '../../../../lib/core/store/idempotency-store.js';
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
  Release,
  ReleaseReply,
  StoreObserver,
} from '../../../../lib/core/store/idempotency-store.js';
export * as transitions from '../../../../lib/core/store/record-transitions.js';
export type { TransactionalRecords } from '../../../../lib/core/store/transactional-records.js';
