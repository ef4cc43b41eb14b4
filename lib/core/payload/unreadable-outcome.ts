import type { UnreadableReason } from '../record/events.js';

const MESSAGES: Readonly<Record<UnreadableReason, string>> = {
  key: 'The stored outcome is encrypted with a key that this process does not have.',
  integrity: 'The stored outcome was changed, or belongs to another record.',
  format: 'The stored outcome is no valid frame.',
  dictionary: 'The stored outcome is compressed with a dictionary that this process does not have.',
  blob_missing: 'The blob that has the body of the stored outcome is not there.',
  blob_unavailable: 'The blob that has the body of the stored outcome cannot be read now.',
  blob_store: 'The body of the stored outcome is in a blob store that this process does not have.',
  algorithm: 'The stored outcome is compressed by an algorithm that this version of Node lacks.',
};

/** There is an outcome, so the operation must not run again; but this process cannot read it. */
export class UnreadableOutcome extends Error {
  override readonly name = 'UnreadableOutcome';

  constructor(readonly reason: UnreadableReason) {
    super(MESSAGES[reason]);
  }
}
