import { isAscii } from 'node:buffer';
import type { Lease } from '../../../core/record/record.js';
import type * as Store from '../../../core/record/commands.js';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { NOTE } from '../../../core/store/record-transitions.js';
import { ValueNotStorableError } from '../../../core/errors/errors.js';
import type { RedisArgument } from '../link/redis-link.js';

/** Stored in place of an origin if begin had none. */
export const NO_ORIGIN = '-';

/** How a script notifies waiters of a record: PUBLISH, SPUBLISH, or not at all. */
type Publish = string | undefined;

/** The nonce of each send is set when it is sent. */
export type ScriptArguments = [nonce: string, ...RedisArgument[]];

const NONCE = '';

/** The place of the size above which lua/begin.lua leaves a record to GET. */
export const LARGEST = 6;

/** The arguments of lua/begin.lua; below, those of its neighbours. @param largest - in bytes. */
export function beginArguments(
  command: Store.Begin,
  largest: string,
): ScriptArguments | ValueNotStorableError {
  const { token, fingerprint, leaseMs, maxExecutionMs, recordRetentionMs, notAfter } = command;
  const { onExpiredLease, origin = NO_ORIGIN, note } = command;
  const invalid = invalidOrigin(command.origin) ?? invalidNote(note);
  if (invalid !== undefined) return invalid;
  const durations = `${leaseMs} ${maxExecutionMs} ${recordRetentionMs} ${origin}`;
  const retention = String(recordRetentionMs);
  const until = String(notAfter);
  const args: ScriptArguments = [NONCE, token, fingerprint, retention, durations, until, largest];
  if (note !== undefined) args.push(onExpiredLease, note);
  else if (onExpiredLease === 'deny') args.push(onExpiredLease);
  return args;
}

export function extendArguments(
  lease: Lease,
  { leaseMs, recordRetentionMs }: Store.Extend,
): ScriptArguments {
  return [NONCE, ownStart(lease), String(leaseMs), String(recordRetentionMs)];
}

export function completeArguments(
  lease: Lease,
  { state, retentionMs, fingerprint, whenGone, outcome, note }: Store.Complete,
  publish: Publish,
): CompleteArguments | ValueNotStorableError {
  const { header } = outcome;
  const invalid = invalidHeader(header) ?? invalidNote(note);
  if (invalid !== undefined) return invalid;
  const args: CompleteArguments = [
    NONCE,
    ownStart(lease),
    state === 'completed' ? 'c' : 'f',
    String(retentionMs),
    `${fingerprint} ${whenGone}`,
    header,
    bodyArgument(outcome.body),
  ];
  if (publish !== undefined || note !== undefined) args.push(...lastArguments(publish, note));
  return args;
}

/** How to notify waiters, and what to write in front of the note: as many as are given. */
function lastArguments(publish: Publish, note: string | undefined): string[] {
  if (note !== undefined) return [publish ?? '', note];
  return publish === undefined ? [] : [publish];
}

export type CompleteArguments = [
  nonce: string,
  ownStart: string,
  letter: string,
  retention: string,
  content: string,
  header: string,
  body: RedisArgument,
  ...publishNoteAndJournal: string[],
];

export function releaseArguments(
  lease: Lease,
  { tombstoneMs, note }: Store.Release,
  publish: Publish,
): ScriptArguments | ValueNotStorableError {
  const last = lastArguments(publish, note);
  return invalidNote(note) ?? [NONCE, ownStart(lease), String(tombstoneMs), ...last];
}

/** @param isHead - without the outcome. */
export function inspectArguments(isHead = false): ScriptArguments {
  return isHead ? [NONCE, 'head'] : [NONCE];
}

const LETTERS = { in_progress: 'p', completed: 'c', failed: 'f', released: 'r' } as const;

export function amendArguments(
  { token, expected, change, evenIfRunning, notBefore, note }: Store.Amend,
  publish: Publish = '',
): ScriptArguments | ValueNotStorableError {
  const outcome = 'outcome' in change ? change.outcome : undefined;
  const invalid = invalidNote(note) ?? (outcome && invalidHeader(outcome.header));
  if (invalid !== undefined) return invalid;
  const seen = `${LETTERS[expected.state]}${expected.fence}`;
  const how = evenIfRunning ? 'yes' : 'no';
  const args: ScriptArguments = [NONCE, token, seen, String(notBefore), how, note ?? '', publish];
  switch (change.kind) {
    case 'release':
      args.push('r', String(change.tombstoneMs), change.isTakeover ? '1' : '0');
      break;
    case 'settle':
      args.push(LETTERS[change.state], String(change.retentionMs));
      break;
    case 'keep':
      args.push('k', change.retentionMs === undefined ? '' : String(change.retentionMs));
      break;
  }
  if (outcome !== undefined) args.push(outcome.header, bodyArgument(outcome.body));
  return args;
}

export function abandonedArguments(overMs: number): ScriptArguments {
  return [NONCE, String(overMs)];
}

/** How a record begins while this attempt has it. Compared as one text. */
function ownStart({ fence, token }: Lease): string {
  return `2p${fence} ${token} `;
}

/** The origin is a word of the record's second line. White space separates these words. */
function invalidOrigin(origin: string | undefined): ValueNotStorableError | undefined {
  if (origin === undefined || (/^\S+$/.test(origin) && origin !== NO_ORIGIN)) return undefined;
  return new ValueNotStorableError(
    `An origin must be text without white space, and not "${NO_ORIGIN}".`,
  );
}

function invalidHeader(header: string): ValueNotStorableError | undefined {
  if (!header.includes('\n')) return undefined;
  return new ValueNotStorableError('The header of an outcome must be one line.');
}

/** The note is the last word of the record's first line, which must stay within the first bytes that a script reads. */
function invalidNote(note: string | undefined): ValueNotStorableError | undefined {
  if (note === undefined || NOTE.test(note)) return undefined;
  return new ValueNotStorableError(
    'A note must have 1 to 240 printable ASCII characters, without white space.',
  );
}

/** Bytes. For a command with bytes in it, clients copy all that is sent; longer text costs more than that. */
const LONGEST_TEXT = 1_024;

/** The body as an argument. The bytes on the wire are the same: ASCII takes one byte a character. */
function bodyArgument(body: Uint8Array): RedisArgument {
  const bytes = asBuffer(body);
  return bytes.length <= LONGEST_TEXT && isAscii(bytes) ? bytes.toString('latin1') : bytes;
}
