import type {
  Fingerprint,
  FinishedState,
  Lease,
  Outcome,
  OwnerToken,
  RecordState,
  StoredRecord,
} from '../../../core/record/record.js';
import type { RecordSnapshot } from '../../../core/store/compare-and-set.js';
import { withNote } from '../../../core/store/record-transitions.js';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { noteWord, recordKeyBytes } from '../../shared/record-values.js';

/**
 * @param reply - the words of the reply after the nonce: the clock; then, if the record exists, its state, owner token,
 * fence, fingerprint, attempt, takeovers, end of retention; then those that are not null of the note after a `#`, the
 * lease's end, its length, the hard deadline, the origin; and for a finished record the header and body of its outcome
 * in base64. Times in seconds.
 */
export function snapshotOf(reply: readonly string[]): RecordSnapshot {
  const [clock = '', state, ...words] = reply;
  const nowUs = microseconds(clock);
  return { nowUs, record: state === undefined ? undefined : recordOf(state as RecordState, words) };
}

function recordOf(state: RecordState, words: readonly string[]): StoredRecord {
  const [token = '', fence, fingerprint = '', attempt, takeovers, expiresAt, ...rest] = words;
  const note = rest[0]?.startsWith('#') === true ? rest.shift()?.slice(1) : undefined;
  const common = {
    token: token as OwnerToken,
    fence: Number(fence),
    fingerprint: fingerprint as Fingerprint,
    attempt: Number(attempt),
    takeovers: Number(takeovers),
    expiresAt: milliseconds(expiresAt),
  };
  const base = withNote(common, note);
  switch (state) {
    case 'in_progress': {
      const [leaseUntil, leaseMs, deadline, origin] = rest;
      return {
        ...base,
        state: 'in_progress',
        leaseUntil: milliseconds(leaseUntil),
        leaseMs: Number(leaseMs),
        deadline: milliseconds(deadline),
        origin,
      };
    }
    case 'released':
      return { ...base, state: 'released' };
    case 'completed':
      return { ...base, state: 'completed', outcome: outcomeOf(rest) };
    case 'failed':
      return { ...base, state: 'failed', outcome: outcomeOf(rest) };
  }
}

/** @param seconds - with microseconds, as PostgreSQL writes them. */
export function microseconds(seconds: string): number {
  return Math.round(Number(seconds) * 1_000_000);
}

function milliseconds(seconds: string | undefined): number {
  return Math.round(Number(seconds) * 1000);
}

/** Every finished record has both, last. What remains of the lease may precede them. */
function outcomeOf(words: readonly string[]): Outcome {
  return {
    header: Buffer.from(words.at(-2) ?? '', 'base64').toString(),
    body: Buffer.from(words.at(-1) ?? '', 'base64'),
  };
}

export function leaseValues({ recordKey, token, fence }: Lease): [Buffer, string, number] {
  return [recordKeyBytes(recordKey), token, fence];
}

interface Completion {
  readonly state: FinishedState;
  readonly retentionMs: number;
  readonly outcome: Outcome;
  readonly note?: string | undefined;
}

/** The values of `complete`, except whether the lease may be over. */
export function completionValues(
  lease: Lease,
  { state, retentionMs, outcome, note }: Completion,
): (Buffer | string | number | null)[] {
  const values = [...leaseValues(lease), state, retentionMs, ...outcomeValues(outcome)];
  return [...values, noteWord(note)];
}

export function outcomeValues({ header, body }: Outcome): [Buffer, Buffer] {
  return [Buffer.from(header), asBuffer(body)];
}
