import { types } from 'node:util';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { atOnce, forget } from '../../core/util/maybe-async.js';

/** One value, written down: bytes and `undefined` as they are, everything else by a codec. */
export interface OutcomePart {
  readonly kind: 'undefined' | 'bytes' | 'value';
  readonly bytes: Uint8Array;
}

/** @throws whatever the codec throws for what it cannot express. */
export function partOf(value: unknown, codec: OutcomeCodec): OutcomePart {
  if (value === undefined) return { kind: 'undefined', bytes: Buffer.alloc(0) };
  // Copies, as the operation may go on with what it has returned, and a caller with what was replayed.
  if (types.isUint8Array(value)) return { kind: 'bytes', bytes: Buffer.from(value) };
  const bytes: unknown = codec.encode(value);
  forget(bytes);
  if (!types.isUint8Array(bytes)) throw new TypeError('encode() did not return a Uint8Array.');
  return { kind: 'value', bytes };
}

/** @throws whatever the codec throws for what it has not written. */
export function partValue({ kind, bytes }: OutcomePart, codec: OutcomeCodec): unknown {
  switch (kind) {
    case 'undefined':
      return undefined;
    case 'bytes':
      return Buffer.from(bytes);
    case 'value':
      return atOnce('codec', codec.decode(bytes));
  }
}
