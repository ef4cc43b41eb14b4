import type { FinishedState, Lease, Outcome, RecordKey } from '../../core/record/record.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../core/util/errors.js';

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
