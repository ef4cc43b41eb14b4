import type { FinalOutcome } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { UnreadableOutcome } from '../payload/outcome-transform.js';
import type { AttemptSubject, UnreadableReason } from '../record/events.js';
import { NOT_KEPT, type FinishedState, type Lease, type Outcome } from '../record/record.js';
import { errorTypeOf } from '../errors/errors.js';
import type { AttemptServices } from './attempt-services.js';

/** What a caller gets in place of an outcome that is stored, and that this process cannot read. */
export type UnreadableAs = 'outcome_unreadable' | 'outcome_unavailable';

/** `outcome_unavailable`: another process, or a later version, may read it. */
const UNREADABLE_AS: Readonly<Record<UnreadableReason, UnreadableAs | Outcome>> = {
  key: 'outcome_unavailable',
  dictionary: 'outcome_unavailable',
  algorithm: 'outcome_unavailable',
  blob_unavailable: 'outcome_unavailable',
  blob_store: 'outcome_unavailable',
  // It is done, and its response is no longer anywhere.
  blob_missing: NOT_KEPT,
  integrity: 'outcome_unreadable',
  format: 'outcome_unreadable',
};

/** An attempt whose operation has ended. */
interface Finished {
  readonly services: AttemptServices;
  readonly request: OperationRequest;
  readonly subject: AttemptSubject;
  readonly lease: Lease;
}

/** The operation has had its effect: if its outcome cannot be packed, only that it is done is kept. Never rejects. */
export async function packed(
  { services, request, subject, lease }: Finished,
  final: FinalOutcome,
): Promise<FinalOutcome> {
  const { recordKey, fingerprint, options } = request;
  const binding = { recordKey, fingerprint, state: final.state };
  try {
    const owner = { token: lease.token, retentionMs: final.retentionMs };
    const outcome = await services.outcomes.pack(final.outcome, binding, options.outcome, owner);
    return { ...final, outcome };
  } catch (error) {
    services.events.emit({ type: 'pack_failed', ...subject, error, errorType: errorTypeOf(error) });
    return { ...final, outcome: NOT_KEPT };
  }
}

/** A stored outcome as its transport made it, or what its caller gets instead. Never rejects. */
export async function unpacked(
  { events, outcomes }: AttemptServices,
  { operation, transport, recordKey, fingerprint, options }: OperationRequest,
  state: FinishedState,
  outcome: Outcome,
): Promise<Outcome | UnreadableAs> {
  try {
    const binding = { recordKey, fingerprint, state };
    return await outcomes.unpack(outcome, binding, options.outcome.offload);
  } catch (error) {
    const reason = error instanceof UnreadableOutcome ? error.reason : 'format';
    events.emit({ type: 'outcome_unreadable', operation, transport, recordKey, reason });
    return UNREADABLE_AS[reason];
  }
}
