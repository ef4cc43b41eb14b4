// eslint-disable-next-line no-restricted-imports -- only stores with a server use it, which no test's clock drives
import { randomBytes } from 'node:crypto';

/** Random, but not a secret: it only distinguishes replies. */
const PROCESS = randomBytes(6).toString('base64url');

let sends = 0;

/** Returns a unique nonce for one send of a command. A reply without it belongs to another send. */
export function newNonce(): string {
  sends += 1;
  return PROCESS + sends.toString(36);
}
