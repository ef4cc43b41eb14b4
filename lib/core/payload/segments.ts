import { createCipheriv, createDecipheriv, createSecretKey } from 'node:crypto';
import { TAG_BYTES } from './frame.js';
import { UnreadableOutcome } from './unreadable-outcome.js';

const CIPHER = 'aes-256-gcm';

/** In clear. A reader uses no byte of a segment before all of it is verified. */
export const SEGMENT_BYTES = 65_536;

/**
 * Encrypts a body by segments, as STREAM does (Hoang, Reyhanitabar, Rogaway, Vizár 2015): the nonce counts them and marks
 * the last one, so that none can be left out, added or moved. The key is for this body alone.
 */
export function* sealedSegments(body: Uint8Array, key: Uint8Array): Generator<Buffer> {
  const secret = createSecretKey(key);
  for (let at = 0, index = 0; index === 0 || at < body.length; at += SEGMENT_BYTES, index += 1) {
    const end = at + SEGMENT_BYTES;
    const nonce = nonceOf(index, end >= body.length);
    const cipher = createCipheriv(CIPHER, secret, nonce, { authTagLength: TAG_BYTES });
    const sealed = cipher.update(body.subarray(at, end));
    cipher.final();
    yield Buffer.concat([sealed, cipher.getAuthTag()]);
  }
}

/** @throws {@link UnreadableOutcome} unless it is what {@link sealedSegments} made, all of it. */
export function openSegments(sealed: Buffer, key: Uint8Array, segmentBytes: number): Buffer {
  if (segmentBytes === 0) throw new UnreadableOutcome('format');
  const secret = createSecretKey(key);
  const parts: Buffer[] = [];
  const step = segmentBytes + TAG_BYTES;
  for (let at = 0, index = 0; index === 0 || at < sealed.length; at += step, index += 1) {
    const segment = sealed.subarray(at, at + step);
    const end = segment.length - TAG_BYTES;
    if (end < 0) throw new UnreadableOutcome('integrity');
    const nonce = nonceOf(index, at + step >= sealed.length);
    const decipher = createDecipheriv(CIPHER, secret, nonce, { authTagLength: TAG_BYTES });
    decipher.setAuthTag(segment.subarray(end));
    parts.push(decipher.update(segment.subarray(0, end)));
    try {
      decipher.final();
    } catch {
      throw new UnreadableOutcome('integrity');
    }
  }
  return Buffer.concat(parts);
}

/** 7 zero bytes, the index in 4, and whether it is the last segment. */
function nonceOf(index: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt32BE(index, 7);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}
