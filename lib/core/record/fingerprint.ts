import { createHash, hash } from 'node:crypto';
import type { Fingerprint } from './record.js';
import { tagged } from './record-key.js';

/**
 * 128 of SHA-256's 256 bits. Only the owner of a key can aim at a collision, and only against himself:
 * 2^64 tries to fool one's own mismatch check. It saves 21 bytes of every record.
 */
const FINGERPRINT_LENGTH = 22;

/** Stands where the content is not compared: all requests with the key count as the same. */
export const NO_FINGERPRINT = '-' as Fingerprint;

/** Digest of parts that are each kept apart by their length; a part is text or bytes. */
export function fingerprint(parts: readonly (string | Uint8Array)[]): Fingerprint {
  return digest(parts).slice(0, FINGERPRINT_LENGTH) as Fingerprint;
}

/** The same in its full length of 43 characters: for what is looked up by it, where strangers may aim at a collision. */
export function digest(parts: readonly (string | Uint8Array)[]): string {
  return parts.every(isText) ? hashText(parts) : hashMixed(parts);
}

function isText(part: string | Uint8Array): part is string {
  return typeof part === 'string';
}

// One call over one string beats a hash object: a request's content is mostly text.
function hashText(parts: readonly string[]): string {
  let text = '';
  for (const part of parts) text += tagged(part);
  return hash('sha256', text, 'base64url');
}

function hashMixed(parts: readonly (string | Uint8Array)[]): string {
  const sha256 = createHash('sha256');
  for (const part of parts) {
    if (isText(part)) sha256.update(tagged(part));
    else sha256.update(`b${String(part.length)}:`).update(part);
  }
  return sha256.digest('base64url');
}
