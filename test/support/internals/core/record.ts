export {
  canonicalJson,
  checkDepth,
  containersIn,
  ContentNotComparableError,
  MAX_CONTENT_DEPTH,
} from '../../../../lib/core/record/canonical-json.js';
export { selectMembers } from '../../../../lib/core/record/content-selection.js';
export type {
  BreakerEvent,
  IdempotencyEvent,
  LeaseLossReason,
  RejectionReason,
} from '../../../../lib/core/record/events.js';
export { EVENT_SEVERITY } from '../../../../lib/core/record/events.js';
export { IdempotencyEvents } from '../../../../lib/core/record/idempotency-events.js';
export { fingerprint, NO_FINGERPRINT } from '../../../../lib/core/record/fingerprint.js';
export { newOwnerToken, OwnerTokens, recordKey } from '../../../../lib/core/record/record-key.js';
export { InvalidScope, readScope } from '../../../../lib/core/record/scope.js';
export type {
  Fingerprint,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../../../lib/core/record/record.js';
