import { createHash, hash } from 'node:crypto';
import type { Fingerprint } from './record.js';
import { tagged } from './record-key.js';

/** 128 bits, saving 21 bytes: a collision takes 2^64 tries and defeats only the check of the attacker's own key. */
export const FINGERPRINT_LENGTH = 22;

/** The fingerprint of content that is not compared: all requests with the key are equal. */
export const NO_FINGERPRINT = '-' as Fingerprint;

/** Digest of strings or bytes. Each part is length-prefixed, so that parts cannot run into one another. */
export function fingerprint(parts: readonly (string | Uint8Array)[]): Fingerprint {
  return digest(parts).slice(0, FINGERPRINT_LENGTH) as Fingerprint;
}

/** The same digest in full (43 characters), for lookups, where another caller could aim at a collision. */
export function digest(parts: readonly (string | Uint8Array)[]): string {
  // One call with one string is faster than a hash object, and most content is text.
  let text = '';
  for (const part of parts) {
    if (typeof part !== 'string') return hashMixed(parts);
    text += tagged(part);
  }
  return hash('sha256', text, 'base64url');
}

function hashMixed(parts: readonly (string | Uint8Array)[]): string {
  const sha256 = createHash('sha256');
  for (const part of parts) {
    if (typeof part === 'string') sha256.update(tagged(part));
    else sha256.update(`b${String(part.length)}:`).update(part);
  }
  return sha256.digest('base64url');
}
