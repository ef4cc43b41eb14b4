import { randomFillSync } from 'node:crypto';
import type { OwnerToken } from './record.js';

const TOKEN_BYTES = 16;
// One call for many tokens: the system call costs more than the bytes.
const pool = Buffer.alloc(TOKEN_BYTES * 256);
let used = pool.length;

/** 128 random bits, new for each attempt. */
export function newOwnerToken(): OwnerToken {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const token = pool.toString('base64url', used, used + TOKEN_BYTES);
  used += TOKEN_BYTES;
  return token as OwnerToken;
}
