import type {
  Fingerprint,
  FinishedState,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
  RecordState,
  StoredRecord,
} from '../../../core/record/record.js';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../../core/util/errors.js';

/** What a statement saw: the server's clock in microseconds, and the record. */
export interface RecordSnapshot {
  readonly nowUs: number;
  readonly record: StoredRecord | undefined;
}

/**
 * @param reply - the words of a statement that reads the record, after the nonce: the clock; where there is a record, its
 * state, owner token, fence, fingerprint, attempt, takeovers, end of the retention; the lease's end, its length, the hard
 * deadline, the origin, those of them that are not null; and of a finished one the outcome's header and body in base64.
 * Instants in seconds.
 */
export function snapshotOf(reply: readonly string[]): RecordSnapshot {
  const [clock = '', state, ...words] = reply;
  const nowUs = microseconds(clock);
  return { nowUs, record: state === undefined ? undefined : recordOf(state as RecordState, words) };
}

function recordOf(state: RecordState, words: readonly string[]): StoredRecord {
  const [token = '', fence, fingerprint = '', attempt, takeovers, expiresAt, ...rest] = words;
  const base = {
    token: token as OwnerToken,
    fence: Number(fence),
    fingerprint: fingerprint as Fingerprint,
    attempt: Number(attempt),
    takeovers: Number(takeovers),
    expiresAt: milliseconds(expiresAt),
  };
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

/** @param seconds - as PostgreSQL writes them, to the microsecond. */
export function microseconds(seconds: string): number {
  return Math.round(Number(seconds) * 1_000_000);
}

function milliseconds(seconds: string | undefined): number {
  return Math.round(Number(seconds) * 1000);
}

/** The table has both in each finished record; before them may stand what it keeps of the lease. */
function outcomeOf(words: readonly string[]): Outcome {
  return {
    header: Buffer.from(words.at(-2) ?? '', 'base64').toString(),
    body: Buffer.from(words.at(-1) ?? '', 'base64'),
  };
}

/** The digest that a record key is. Two texts that a lenient decoder takes for the same bytes would be one key. */
export function recordKeyBytes(recordKey: RecordKey): Buffer {
  const bytes = Buffer.from(recordKey, 'base64url');
  if (bytes.length === 0 || bytes.toString('base64url') !== recordKey) {
    throw new ValueNotStorableError('A record key must be a digest in base64url.');
  }
  return bytes;
}

/** The origin as a word among the others that a statement answers with, see `record-row.ts`. */
export function originWord(origin: string | undefined): string | null {
  if (origin === undefined) return null;
  if (!/^\S+$/.test(origin)) {
    throw new ValueNotStorableError('An origin must be text without white space.');
  }
  return origin;
}

/** What names an attempt's own record. */
export function leaseValues({ recordKey, token, fence }: Lease): [Buffer, string, number] {
  return [recordKeyBytes(recordKey), token, fence];
}

/** What `complete` is given but for whether the lease may be over. */
export function completionValues(
  lease: Lease,
  { state, retentionMs, outcome }: { state: FinishedState; retentionMs: number; outcome: Outcome },
): (Buffer | string | number)[] {
  return [...leaseValues(lease), state, retentionMs, ...outcomeValues(outcome)];
}

export function outcomeValues({ header, body }: Outcome): [Buffer, Buffer] {
  return [Buffer.from(header), asBuffer(body)];
}
