import type { OperationRequest } from '../operation/operation-request.js';
import type { BeginReply, IdempotencyRecord } from '../record/commands.js';
import type { RecordName } from '../record/digests.js';
import { asError } from '../errors/errors.js';
import type { AttemptServices } from './attempt-services.js';

/**
 * What is found under the other names of a record, while digest keys rotate. `clear`: nothing that keeps the attempt from
 * running. `moved`: the record that the request goes on with.
 */
export type Elsewhere =
  | { readonly kind: 'clear'; readonly attempts: number; readonly takeovers: number }
  | { readonly kind: 'moved'; readonly name: RecordName }
  | { readonly kind: 'failed'; readonly error: Error };

/** How long an attempt that went on under another name is remembered here: for late copies of its begin. */
export const UNUSED_TOMBSTONE_MS = 60_000;

/** A begin that may go on elsewhere. */
export function mayBeElsewhere({ kind }: BeginReply): boolean {
  return kind !== 'completed' && kind !== 'failed' && kind !== 'late' && kind !== 'stale_begin';
}

/**
 * Looks up the other names of a request after its begin, never before. Two processes whose lists have another order both
 * write their own name before they read the other's: at least one of them sees the other, and no more than one runs.
 * Never rejects.
 */
export async function lookElsewhere(
  { store, events }: AttemptServices,
  { otherNames = [], options }: OperationRequest,
  begun: BeginReply,
): Promise<Elsewhere> {
  const { commandTimeout: timeoutMs } = options.storeErrors;
  let attempts = 0;
  let takeovers = 0;
  try {
    const found = await Promise.all(
      otherNames.map(({ recordKey }) =>
        events.counted('inspect', () => store.inspect(recordKey, { timeoutMs })),
      ),
    );
    for (const [index, record] of found.entries()) {
      const name = otherNames[index];
      if (record === undefined || name === undefined || isUnused(record)) continue;
      if (goesOnWith(record, begun)) return { kind: 'moved', name };
      if (record.state !== 'released') continue;
      attempts += record.attempt;
      takeovers += record.takeovers;
    }
  } catch (error) {
    return { kind: 'failed', error: asError(error) };
  }
  return { kind: 'clear', attempts, takeovers };
}

/** A tombstone whose attempt never ran, perhaps this request's own; or that is about to be forgotten anyway. */
function isUnused({ state, takeovers, retentionLeftMs }: IdempotencyRecord): boolean {
  return state === 'released' && takeovers === 0 && retentionLeftMs <= UNUSED_TOMBSTONE_MS;
}

function goesOnWith({ state, fence }: IdempotencyRecord, begun: BeginReply): boolean {
  const isFinished = state === 'completed' || state === 'failed';
  switch (begun.kind) {
    case 'acquired':
    case 'owned':
    case 'takeover':
      // Of what was released: where the fencing token would otherwise fall, since shards differ in their clocks.
      return isFinished || state === 'in_progress' || fence >= begun.fence;
    case 'mismatch':
      // The record that differs may be one that is about to be released, too.
      return isFinished || state === 'in_progress';
    default:
      return isFinished;
  }
}

/** The same request, of the record under another of its names. `undefined` where its content is not known. */
export function movedTo(
  { recordKey: key, fingerprint: content, otherNames = [], ...request }: OperationRequest,
  { recordKey, fingerprint }: RecordName,
): OperationRequest | undefined {
  if (fingerprint === undefined) return undefined;
  const others = otherNames.filter((other) => other.recordKey !== recordKey);
  const here = { recordKey: key, fingerprint: content };
  return { ...request, recordKey, fingerprint, otherNames: [here, ...others] };
}
