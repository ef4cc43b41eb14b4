import { randomBytes } from 'node:crypto';

const OF_THIS_PROCESS = randomBytes(8).toString('base64url');

let sent = 0;

/** What one send of a command to a server is known by: a reply that does not carry it is another one's. No two are alike. */
export function newNonce(): string {
  sent += 1;
  return `${OF_THIS_PROCESS}${sent.toString(36)}`;
}
