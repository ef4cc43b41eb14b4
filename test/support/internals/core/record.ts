export {
  canonicalJson,
  checkDepth,
  containersIn,
  ContentNotComparableError,
  MAX_CONTENT_DEPTH,
} from '../../../../lib/core/record/canonical-json.js';
export { selectMembers } from '../../../../lib/core/record/content-selection.js';
export {
  IdempotencyEvents,
  type BreakerEvent,
  type LeaseLossReason,
  type RejectionReason,
} from '../../../../lib/core/record/events.js';
export { fingerprint, NO_FINGERPRINT } from '../../../../lib/core/record/fingerprint.js';
export { newOwnerToken, recordKey } from '../../../../lib/core/record/record-key.js';
export type {
  Fingerprint,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../../../lib/core/record/record.js';
