import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject } from 'node:crypto';
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
    yield seal(body.subarray(at, end), secret, index, end >= body.length);
  }
}

/** The same for a body that comes in chunks of any length. */
export async function* sealedStream(
  body: AsyncIterable<Buffer>,
  key: Uint8Array,
): AsyncGenerator<Buffer, void, undefined> {
  const secret = createSecretKey(key);
  let index = 0;
  for await (const { bytes, isLast } of inSegments(body, SEGMENT_BYTES)) {
    yield seal(bytes, secret, index, isLast);
    index += 1;
  }
}

/** @throws {@link UnreadableOutcome} unless it is what {@link sealedSegments} made, all of it. */
export function openSegments(sealed: Buffer, key: Uint8Array, segmentBytes: number): Buffer {
  if (segmentBytes === 0) throw new UnreadableOutcome('format');
  const secret = createSecretKey(key);
  const parts: Buffer[] = [];
  const step = segmentBytes + TAG_BYTES;
  for (let at = 0, index = 0; index === 0 || at < sealed.length; at += step, index += 1) {
    parts.push(open(sealed.subarray(at, at + step), secret, index, at + step >= sealed.length));
  }
  return Buffer.concat(parts);
}

/** The same for what comes in chunks of any length: none is given out before it is verified. */
export async function* openStream(
  sealed: AsyncIterable<Buffer>,
  key: Uint8Array,
  segmentBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  if (segmentBytes === 0) throw new UnreadableOutcome('format');
  const secret = createSecretKey(key);
  let index = 0;
  for await (const { bytes, isLast } of inSegments(sealed, segmentBytes + TAG_BYTES)) {
    yield open(bytes, secret, index, isLast);
    index += 1;
  }
}

function seal(clear: Uint8Array, secret: KeyObject, index: number, isLast: boolean): Buffer {
  const nonce = nonceOf(index, isLast);
  const cipher = createCipheriv(CIPHER, secret, nonce, { authTagLength: TAG_BYTES });
  const sealed = cipher.update(clear);
  cipher.final();
  return Buffer.concat([sealed, cipher.getAuthTag()]);
}

function open(segment: Buffer, secret: KeyObject, index: number, isLast: boolean): Buffer {
  const end = segment.length - TAG_BYTES;
  if (end < 0) throw new UnreadableOutcome('integrity');
  const nonce = nonceOf(index, isLast);
  const decipher = createDecipheriv(CIPHER, secret, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(segment.subarray(end));
  const clear = decipher.update(segment.subarray(0, end));
  try {
    decipher.final();
  } catch {
    throw new UnreadableOutcome('integrity');
  }
  return clear;
}

interface Segment {
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

/** Segments of so many bytes; the last one, which may be shorter or empty, is known only at the end. */
async function* inSegments(
  source: AsyncIterable<Buffer>,
  bytes: number,
): AsyncGenerator<Segment, void, undefined> {
  // Joined once for each segment: once for each chunk would copy small ones over and over.
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of source) {
    let rest = chunk;
    while (length + rest.length > bytes) {
      const needed = bytes - length;
      yield { bytes: joined(parts, rest.subarray(0, needed)), isLast: false };
      rest = rest.subarray(needed);
      parts = [];
      length = 0;
    }
    if (rest.length === 0) continue;
    parts.push(rest);
    length += rest.length;
  }
  yield { bytes: joined(parts), isLast: true };
}

/** Not copied if it is in one part. */
function joined(parts: readonly Buffer[], end?: Buffer): Buffer {
  const all = end === undefined || end.length === 0 ? parts : [...parts, end];
  const [only] = all;
  return only !== undefined && all.length === 1 ? only : Buffer.concat(all);
}

/** 7 zero bytes, the index in 4, and whether it is the last segment. */
function nonceOf(index: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt32BE(index, 7);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}
