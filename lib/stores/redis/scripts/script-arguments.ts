import { isAscii } from 'node:buffer';
import type { Lease } from '../../../core/record/record.js';
import type * as Store from '../../../core/store/idempotency-store.js';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../../core/util/errors.js';
import type { ScriptArgument } from '../ioredis/client-types.js';

/** Stored in place of an origin if begin had none. */
export const NO_ORIGIN = '-';

/** How a script notifies waiters of a record: PUBLISH, SPUBLISH, or not at all. */
type Publish = string | undefined;

/** The arguments of lua/begin.lua after the nonce; below, those of its neighbours. */
export function beginArguments(command: Store.Begin): readonly ScriptArgument[] {
  const { token, fingerprint, leaseMs, maxExecutionMs, recordRetentionMs, notAfter } = command;
  const { onExpiredLease, origin, note } = command;
  const durations = `${leaseMs} ${maxExecutionMs} ${recordRetentionMs} ${originWord(origin)}`;
  const args = [token, fingerprint, String(recordRetentionMs), durations, String(notAfter)];
  if (note !== undefined) args.push(onExpiredLease, noteWord(note));
  else if (onExpiredLease === 'deny') args.push(onExpiredLease);
  return args;
}

export function extendArguments(
  lease: Lease,
  { leaseMs, recordRetentionMs }: Store.Extend,
): readonly ScriptArgument[] {
  return [ownStart(lease), String(leaseMs), String(recordRetentionMs)];
}

export function completeArguments(
  lease: Lease,
  { state, retentionMs, fingerprint, whenGone, outcome }: Store.Complete,
  publish: Publish,
): CompleteArguments {
  const args: CompleteArguments = [
    ownStart(lease),
    state === 'completed' ? 'c' : 'f',
    String(retentionMs),
    `${fingerprint} ${whenGone}`,
    headerLine(outcome.header),
    bodyArgument(outcome.body),
  ];
  if (publish !== undefined) args.push(publish);
  return args;
}

type CompleteArguments = [
  ownStart: string,
  letter: string,
  retention: string,
  content: string,
  header: string,
  body: ScriptArgument,
  ...publish: string[],
];

/** A finished record before it replaces the one in progress. */
export interface StagedRecord {
  /** Begins with the record's key: what an ACL permits and a client adds to keys is the same. */
  readonly key: string;
  readonly parts: readonly Buffer[];
  /** Nothing is left of it then, if the process ends between both commands. */
  readonly expiryMs: number;
  /** Of lua/complete-large.lua. */
  readonly args: readonly string[];
}

/**
 * The record that lua/complete.lua would write for a first attempt without a note, with zeros for the instant of its
 * expiry.
 * @returns undefined if it has at most so many bytes.
 */
export function stagedRecord(
  key: string,
  args: readonly ScriptArgument[],
  largestInScripts: number,
  timeoutMs: number,
): StagedRecord | undefined {
  const [start, letter, retention, content, header, body, ...publish] = args as CompleteArguments;
  if (header.length + body.length + LONGEST_START < largestInScripts) return undefined;
  const [fence = '', token = ''] = start.slice(2).split(' ');
  const [fingerprint = ''] = content.split(' ', 1);
  const head = Buffer.from(
    `2${letter}${fence} ${token} 1 0 ${fingerprint}\n${NO_INSTANT}\n${header}\n`,
  );
  if (head.length + body.length <= largestInScripts) return undefined;
  return {
    key: `${key}:${token}`,
    parts: [head, typeof body === 'string' ? Buffer.from(body) : body],
    expiryMs: Math.max(1, Math.ceil(timeoutMs)),
    args: [retention, ...publish],
  };
}

/** More than the first two lines of most records have: saves the count for small ones. */
const LONGEST_START = 256;
/** As long as an instant in ms is until the year 2286. */
const NO_INSTANT = '0'.repeat(13);

export function releaseArguments(
  lease: Lease,
  { tombstoneMs }: Store.Release,
  publish: Publish,
): readonly ScriptArgument[] {
  const args = [ownStart(lease), String(tombstoneMs)];
  if (publish !== undefined) args.push(publish);
  return args;
}

/** How a record begins while this attempt has it. Compared as one text. */
function ownStart({ fence, token }: Lease): string {
  return `2p${fence} ${token} `;
}

/** The origin as a word of the record's second line. White space separates these words. */
function originWord(origin: string | undefined): string {
  if (origin === undefined) return NO_ORIGIN;
  if (!/^\S+$/.test(origin) || origin === NO_ORIGIN) {
    throw new ValueNotStorableError(
      `An origin must be text without white space, and not "${NO_ORIGIN}".`,
    );
  }
  return origin;
}

/** The note as the last word of the record's first line, which must stay within the first bytes that a script reads. */
function noteWord(note: string): string {
  if (!/^[!-~]{1,120}$/.test(note)) {
    throw new ValueNotStorableError(
      'A note must have 1 to 120 printable ASCII characters, without white space.',
    );
  }
  return note;
}

/** The outcome's header as one line of the record, followed by the body. */
function headerLine(header: string): string {
  if (header.includes('\n')) {
    throw new ValueNotStorableError('The header of an outcome must be one line.');
  }
  return header;
}

/** Bytes. For a command with bytes in it, ioredis copies all that is sent; longer text costs more than that. */
const LONGEST_TEXT = 1_024;

/** The body as an argument of ioredis. The bytes on the wire are the same: ASCII takes one byte a character. */
function bodyArgument(body: Uint8Array): ScriptArgument {
  const bytes = asBuffer(body);
  return bytes.length <= LONGEST_TEXT && isAscii(bytes) ? bytes.toString('latin1') : bytes;
}
