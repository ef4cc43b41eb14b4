import { asBuffer } from '../../core/util/as-buffer.js';
import type { OutcomePart } from './outcome-part.js';

/** By the number that stands in front of a part. */
const KINDS: readonly OutcomePart['kind'][] = ['undefined', 'value', 'bytes'];

/** The number of its kind, and its length as four bytes, the most significant one first. */
const HEAD_BYTES = 5;

/**
 * Parts one after another in one body. What tells them apart stands in the body, not in the outcome's header: a header
 * stays short, and `maxStoredBytes` counts all that grows with the number of parts.
 */
export function framed(parts: readonly OutcomePart[]): Buffer {
  return Buffer.concat(parts.flatMap((part) => [headOf(part), part.bytes]));
}

/** @throws RangeError where the body ends too early, or is none. */
export function unframed(body: Uint8Array): OutcomePart[] {
  const bytes = asBuffer(body);
  const parts: OutcomePart[] = [];
  for (let at = 0; at < bytes.length;) {
    const kind = KINDS[bytes.readUInt8(at)];
    const start = at + HEAD_BYTES;
    at = start + bytes.readUInt32BE(at + 1);
    if (kind === undefined || at > bytes.length) throw new RangeError('The parts are damaged.');
    parts.push({ kind, bytes: bytes.subarray(start, at) });
  }
  return parts;
}

function headOf({ kind, bytes }: OutcomePart): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(KINDS.indexOf(kind));
  head.writeUInt32BE(bytes.length, 1);
  return head;
}
