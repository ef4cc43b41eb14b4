export {
  canonicalJson,
  checkDepth,
  containersIn,
  ContentNotComparableError,
  MAX_CONTENT_DEPTH,
} from '../../../../lib/core/canonical-json.js';
export { selectMembers } from '../../../../lib/core/content-selection.js';
export { IdempotencyEvents, type RejectionReason } from '../../../../lib/core/events.js';
export { fingerprint, NO_FINGERPRINT } from '../../../../lib/core/fingerprint.js';
export { newOwnerToken } from '../../../../lib/core/owner-token.js';
export { recordKey } from '../../../../lib/core/record-key.js';
export type {
  Fingerprint,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../../../lib/core/record.js';
