import { randomBytes } from 'node:crypto';
import type { ScriptReply } from './script-reply.js';

/** Connections of a process share it, and nobody has to guess it: it tells replies apart, and keeps no secret. */
const PROCESS = randomBytes(6).toString('base64url');

let sends = 0;

/** What a script is to say in its reply: another one for each send. */
export function newNonce(): string {
  sends += 1;
  return PROCESS + sends.toString(36);
}

/**
 * Whether the reply is that of the send with this nonce. A script says it first, and nothing else of a reply may be
 * believed before: that a reply comes in a command's place does not make it the command's.
 */
export function isReplyTo(nonce: string, reply: unknown): reply is ScriptReply {
  if (!Array.isArray(reply)) return false;
  const said: unknown = reply[0];
  return Buffer.isBuffer(said) && said.toString('latin1') === nonce;
}
