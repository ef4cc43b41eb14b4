import { randomBytes } from 'node:crypto';

/** Nobody has to guess it: it tells replies apart, and keeps no secret. */
const PROCESS = randomBytes(6).toString('base64url');

let sends = 0;

/** Names one send of a command. A reply that does not carry it belongs to another send. No two are equal. */
export function newNonce(): string {
  sends += 1;
  return PROCESS + sends.toString(36);
}
