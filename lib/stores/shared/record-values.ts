import { ValueNotStorableError } from '../../core/errors/errors.js';
import type { RecordKey } from '../../core/record/record.js';
import { NOTE } from '../../core/store/record-transitions.js';

/** Of a list: some milliseconds of the server. */
export const RECORDS_PER_STATEMENT = 500;

/** The digest in a record key. Rejects non-canonical base64url, by which two texts would be one key. */
export function recordKeyBytes(recordKey: RecordKey): Buffer {
  const bytes = Buffer.from(recordKey, 'base64url');
  if (bytes.length === 0 || bytes.toString('base64url') !== recordKey) {
    throw new ValueNotStorableError('A record key must be a digest in base64url.');
  }
  return bytes;
}

export function originWord(origin: string | undefined): string | null {
  if (origin === undefined) return null;
  if (!/^\S+$/.test(origin)) {
    throw new ValueNotStorableError('An origin must be a string without white space.');
  }
  return origin;
}

export function noteWord(note: string | undefined): string | null {
  if (note === undefined) return null;
  if (!NOTE.test(note)) {
    throw new ValueNotStorableError(
      'A note must be 1 to 240 printable ASCII characters without white space.',
    );
  }
  return note;
}

/** Of base64url. */
const BITS_PER_CHARACTER = 6;
/** More than any key has. */
const HIGHEST = Buffer.alloc(64, 0xff);

/** The lowest and the highest key whose base64url may begin so: a text that ends within a byte fits more keys. */
export function keyRange(prefix: string): [lowest: Buffer, highest: Buffer] {
  const wholeBytes = Math.floor((prefix.length * BITS_PER_CHARACTER) / 8);
  const lowest = Buffer.from(`${prefix}A`, 'base64url').subarray(0, wholeBytes);
  const highest = Buffer.from(`${prefix}_`, 'base64url');
  return [lowest, Buffer.concat([highest, HIGHEST])];
}
