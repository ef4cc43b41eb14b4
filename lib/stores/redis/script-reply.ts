import type { Outcome } from '../../core/record/record.js';
import { StoreConfigurationError } from '../../core/util/errors.js';

/**
 * Fields of a script's reply: the nonce of its command, then those that say something, the first naming its kind. Text
 * comes as bytes, and so do numbers that a script has as text; the others come as numbers, or as strings where the client
 * is set so.
 */
export type ScriptReply = readonly ReplyField[];

type ReplyField = Buffer | string | number;

/**
 * Whether the reply is that of the send with this nonce. A script says it first, and nothing else of a reply may be
 * believed before: that a reply comes in a command's place does not make it the command's.
 */
export function isReplyTo(nonce: string, reply: unknown): reply is ScriptReply {
  if (!Array.isArray(reply)) return false;
  const said: unknown = reply[0];
  return Buffer.isBuffer(said) && said.toString('latin1') === nonce;
}

/** What Redis says to each command between MULTI and EXEC. */
export function isQueued(reply: unknown): boolean {
  return (typeof reply === 'string' || Buffer.isBuffer(reply)) && reply.toString() === 'QUEUED';
}

export function kindOf(reply: ScriptReply): string {
  return textAt(reply, 0);
}

export function textAt(reply: ScriptReply, index: number): string {
  return fieldAt(reply, index).toString();
}

export function numberAt(reply: ScriptReply, index: number): number {
  return Number(textAt(reply, index));
}

/** An outcome takes two fields: its header, then its bytes. */
export function outcomeAt(reply: ScriptReply, index: number): Outcome {
  return { header: textAt(reply, index), body: fieldAt(reply, index + 1) as Buffer };
}

export function unknownReply(reply: ScriptReply): StoreConfigurationError {
  return new StoreConfigurationError(
    `Redis gave a reply that no script of this version gives: ${kindOf(reply).slice(0, 40)}`,
  );
}

function fieldAt(reply: ScriptReply, index: number): ReplyField {
  // After the nonce.
  const field = reply[index + 1];
  if (field === undefined)
    throw new StoreConfigurationError('Redis gave a reply with a field missing');
  return field;
}
