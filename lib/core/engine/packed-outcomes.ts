import type { BodySpool, FinalOutcome } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import type { BlobDirection } from '../record/blob-observer.js';
import { FRAME_HEADER, UnreadableOutcome } from '../payload/outcome-transform.js';
import type { Offloaded } from '../payload/offload.js';
import type { AttemptSubject, UnreadableReason } from '../record/events.js';
import {
  bytesOf,
  NOT_KEPT,
  type FinishedState,
  type Lease,
  type Outcome,
  type ReadableOutcome,
} from '../record/record.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';
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

/** A body that was streamed, as the engine started it. */
export interface Uploading extends BodySpool {
  isKept: boolean;
  readonly done: Promise<Offloaded>;
  /** In which it is stored. */
  readonly transaction: OpenTransaction | undefined;
}

/** Of the outcome that is completed with one. */
export function uploadOf({ spool }: FinalOutcome): Uploading | undefined {
  return spool as Uploading | undefined;
}

/** An attempt whose operation has ended. */
interface Finished {
  readonly services: AttemptServices;
  readonly request: OperationRequest;
  readonly subject: AttemptSubject;
  readonly lease: Lease;
}

/** The operation has had its effect: if its outcome cannot be packed, only that it is done is kept. Never rejects. */
export async function packed(finished: Finished, final: FinalOutcome): Promise<FinalOutcome> {
  try {
    return await packedIn(finished, final);
  } catch (error) {
    const { services, subject } = finished;
    services.events.emit({ type: 'pack_failed', ...subject, error, errorType: errorTypeOf(error) });
    return { ...final, outcome: NOT_KEPT };
  }
}

/**
 * With its blob, if it has one, in the transaction of the operation, which must not commit if this rejects: the database may
 * have refused a statement of it.
 */
export async function packedIn(
  { services, request, lease: { token } }: Finished,
  final: FinalOutcome,
  transaction?: OpenTransaction,
): Promise<FinalOutcome> {
  const { recordKey, fingerprint, scope, options } = request;
  const { state, retentionMs } = final;
  const binding = { recordKey, fingerprint, scope, state };
  const owner = { token, retentionMs, transaction };
  const upload = uploadOf(final);
  if (upload !== undefined && upload.transaction !== transaction) {
    throw new TypeError('The transaction that had the body in the blob store was rolled back.');
  }
  const outcome = await services.outcomes.pack(
    final.outcome,
    binding,
    options.outcome,
    owner,
    upload?.done,
  );
  if (upload !== undefined) upload.isKept = true;
  countRecord(services, 'put', outcome);
  return { ...final, outcome };
}

/**
 * A stored outcome as its transport made it, or what its caller gets instead. Never rejects.
 * @param retentionLeftMs - as in {@link OutcomeTransform.unpack}.
 */
export async function unpacked(
  services: AttemptServices,
  request: OperationRequest,
  state: FinishedState,
  outcome: Outcome,
  retentionLeftMs: number | (() => Promise<number>),
): Promise<ReadableOutcome | UnreadableAs> {
  const { recordKey, fingerprint, scope, options, takesStreams } = request;
  const { offload, maxBytes: aboveBytes } = options.outcome;
  countRecord(services, 'get', outcome);
  const streaming =
    takesStreams === true ? { aboveBytes, broken: broken(services, request) } : undefined;
  const binding = { recordKey, fingerprint, scope, state };
  return readableAs(services, request, async () =>
    services.outcomes.unpack(outcome, binding, offload, retentionLeftMs, streaming),
  );
}

/** What `read` resolves with, or what a caller gets instead. Never rejects. */
export async function readableAs<Read>(
  services: AttemptServices,
  request: OperationRequest,
  read: () => Promise<Read>,
): Promise<Read | Outcome | UnreadableAs> {
  try {
    return await read();
  } catch (error) {
    const unreadable = error instanceof UnreadableOutcome ? error : new UnreadableOutcome('format');
    broken(services, request)(unreadable);
    return UNREADABLE_AS[unreadable.reason];
  }
}

/** Reports an outcome of which something cannot be read. */
export function broken(
  { events }: AttemptServices,
  { operation, transport, recordKey }: OperationRequest,
): (error: UnreadableOutcome) => void {
  return ({ reason }) => {
    events.emit({ type: 'outcome_unreadable', operation, transport, recordKey, reason });
  };
}

/** One that is stored as its transport made it does not count: nothing was packed. */
function countRecord(
  { events }: AttemptServices,
  direction: BlobDirection,
  outcome: Outcome,
): void {
  if (outcome.header !== FRAME_HEADER) return;
  events.counter.recordMoved(direction, bytesOf(outcome));
}
