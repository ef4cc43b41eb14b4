import type {
  Fingerprint,
  FinishedState,
  Outcome,
  RecordState,
} from '../../../core/record/record.js';
import type {
  AbandonedRecord,
  Acquisition,
  AmendReply,
  BeginReply,
  CompleteReply,
  ExtendReply,
  IdempotencyRecord,
  ReleaseReply,
} from '../../../core/record/commands.js';
import { withNote } from '../../../core/store/record-transitions.js';
import { StoreConfigurationError } from '../../../core/errors/errors.js';
import { MISSED } from '../link/reply-order.js';
import { NO_ORIGIN } from './script-arguments.js';

/**
 * `<nonce> <kind> <field> …`; with a finished record, a list of that, of a number if the script has one, and of the record.
 * A client may be set to return numbers as strings.
 */
export type ScriptReply =
  Buffer | readonly [head: Buffer, ...data: (Buffer | number | string)[]] | LargeReply;

/** Of lua/begin.lua: in place of a large record, which GET reads, its first two lines. */
export type LargeReply = readonly [
  head: Buffer,
  leftMs: number | string,
  record: readonly [Buffer],
];

const LINE_FEED = 0x0a;
const SPACE = 0x20;

/** The reply of lua/begin.lua, if it leaves a large record to GET. */
export function largeReplyOf(reply: ScriptReply): LargeReply | undefined {
  return Array.isArray(reply) && Array.isArray(reply[2]) ? (reply as LargeReply) : undefined;
}

/** The words of a reply: the nonce, the kind, and its fields. */
type Words = readonly string[];

const KIND = 1;
const FIRST = 2;

function wordsOf(reply: ScriptReply): Words {
  const head = Buffer.isBuffer(reply) ? reply : reply[0];
  return head.toString().split(' ');
}

/** Why the journal lacks the entry of what the script did: a word of the server's error. */
export function missedEntry(reply: ScriptReply): string | undefined {
  const head = Buffer.isBuffer(reply) ? reply : reply[0];
  const mark = head.indexOf(MISSED);
  const end = head.indexOf(SPACE);
  return mark < 0 || mark > end ? undefined : head.toString('latin1', mark + 1, end);
}

export function kindOf(reply: ScriptReply): string {
  return textAt(wordsOf(reply), KIND);
}

/** Kinds of replies of scripts that wrote nothing. */
const WITHOUT_WRITE = new Set([
  ...['in_progress', 'abandoned', 'completed', 'failed', 'mismatch', 'stale_begin', 'late'],
  ...['superseded', 'lost', 'gone', 'other', 'changed', 'not_applicable', 'running', 'too_fresh'],
]);

/** Whether the script may have written: a failover may lose it. */
export function hasWritten(reply: ScriptReply): boolean {
  return !WITHOUT_WRITE.has(kindOf(reply));
}

function textAt(words: Words, index: number): string {
  const word = words[index];
  if (word === undefined) throw incomplete();
  return word;
}

function numberAt(words: Words, index: number): number {
  return Number(textAt(words, index));
}

/** A record's third line is its outcome's header; the body follows. */
function outcomeOf(reply: ScriptReply): Outcome {
  const record = Buffer.isBuffer(reply) ? undefined : reply.at(-1);
  if (!Buffer.isBuffer(record)) throw incomplete();
  const start = record.indexOf(LINE_FEED, record.indexOf(LINE_FEED) + 1) + 1;
  const end = record.indexOf(LINE_FEED, start);
  if (start === 0 || end < 0) throw incomplete();
  return { header: record.toString('utf8', start, end), body: record.subarray(end + 1) };
}

function incomplete(): StoreConfigurationError {
  return new StoreConfigurationError('The reply from a script of the store lacks a field');
}

function unknownReply(kind: string): StoreConfigurationError {
  return new StoreConfigurationError(
    `Unexpected reply from a script of the store: ${kind.slice(0, 40)}`,
  );
}

/** The replies of lua/begin.lua; below, those of its neighbours. */
export function parseBeginReply(reply: ScriptReply): BeginReply {
  const words = wordsOf(reply);
  const kind = textAt(words, KIND);
  switch (kind) {
    case 'acquired':
      return { kind, ...(words.length > FIRST + 1 ? acquisition(words) : first(words)) };
    case 'owned':
      return { kind, ...acquisition(words) };
    case 'takeover':
      return withNote({ kind, ...acquisition(words) }, words[FIRST + 4]);
    case 'completed':
    case 'failed': {
      const finished = { kind, outcome: outcomeOf(reply), retentionLeftMs: Number(reply[1]) };
      return withNote(finished, words[FIRST]);
    }
    case 'in_progress':
      return withNote({ kind, leaseLeftMs: numberAt(words, FIRST) }, words[FIRST + 1]);
    case 'abandoned': {
      const { now: overMs, ...rest } = acquisition(words);
      return withNote({ kind, overMs, ...rest }, words[FIRST + 4]);
    }
    case 'mismatch':
    case 'stale_begin':
      return { kind };
    case 'late':
      return { kind, now: numberAt(words, FIRST) };
    default:
      throw unknownReply(kind);
  }
}

/** Of a record that did not exist: its fence is the instant in microseconds. */
function first(words: Words): Acquisition {
  const fence = numberAt(words, FIRST);
  return { fence, now: Math.floor(fence / 1_000), attempt: 1, takeovers: 0 };
}

function acquisition(words: Words): Acquisition {
  return {
    fence: numberAt(words, FIRST),
    now: numberAt(words, FIRST + 1),
    attempt: numberAt(words, FIRST + 2),
    takeovers: numberAt(words, FIRST + 3),
  };
}

export function parseExtendReply(reply: ScriptReply): ExtendReply {
  const kind = kindOf(reply);
  switch (kind) {
    case 'ok':
    case 'revived':
    case 'max_execution':
    case 'lost':
    case 'gone':
    case 'not_in_progress':
      return { kind };
    default:
      throw unknownReply(kind);
  }
}

export function parseCompleteReply(reply: ScriptReply): CompleteReply {
  const words = wordsOf(reply);
  const kind = textAt(words, KIND);
  switch (kind) {
    case 'ok':
    case 'ok_late':
    case 'already':
    case 'restored':
    case 'gone':
      return { kind };
    case 'superseded':
      return { kind, state: textAt(words, FIRST) as FinishedState, outcome: outcomeOf(reply) };
    case 'lost': {
      const state = textAt(words, FIRST) as RecordState;
      return { kind, state, fence: numberAt(words, FIRST + 1) };
    }
    default:
      throw unknownReply(kind);
  }
}

export function parseReleaseReply(reply: ScriptReply): ReleaseReply {
  const kind = kindOf(reply);
  switch (kind) {
    case 'ok':
    case 'already':
    case 'not_in_progress':
    case 'lost':
    case 'gone':
      return { kind };
    default:
      throw unknownReply(kind);
  }
}

export function parseInspectReply(reply: ScriptReply): IdempotencyRecord | undefined {
  const words = wordsOf(reply);
  const state = textAt(words, KIND);
  switch (state) {
    case 'absent':
      return undefined;
    case 'in_progress': {
      const leaseLeftMs = numberAt(words, FIRST + 6);
      const origin = textAt(words, FIRST + 7);
      const record = { state, ...commonFields(words), leaseLeftMs };
      return withNote(origin === NO_ORIGIN ? record : { ...record, origin }, words[FIRST + 8]);
    }
    case 'completed':
    case 'failed': {
      const record = { state, ...commonFields(words) };
      // Left out, where the record is listed.
      const full = Buffer.isBuffer(reply) ? record : { ...record, outcome: outcomeOf(reply) };
      return withNote(full, words[FIRST + 6]);
    }
    case 'released':
      return withNote({ state, ...commonFields(words) }, words[FIRST + 6]);
    default:
      throw unknownReply(state);
  }
}

function commonFields(words: Words): Omit<IdempotencyRecord, 'state'> {
  return {
    fence: numberAt(words, FIRST),
    attempt: numberAt(words, FIRST + 1),
    takeovers: numberAt(words, FIRST + 2),
    fingerprint: textAt(words, FIRST + 3) as Fingerprint,
    ageMs: numberAt(words, FIRST + 4),
    retentionLeftMs: numberAt(words, FIRST + 5),
  };
}

export function parseAmendReply(reply: ScriptReply): AmendReply {
  const words = wordsOf(reply);
  const kind = textAt(words, KIND);
  switch (kind) {
    case 'ok':
      return { kind, fence: numberAt(words, FIRST) };
    case 'already':
    case 'not_applicable':
      return { kind };
    case 'changed': {
      const state = textAt(words, FIRST) as RecordState | 'absent';
      return { kind, state, fence: numberAt(words, FIRST + 1) };
    }
    case 'running':
      return { kind, leaseLeftMs: numberAt(words, FIRST) };
    case 'too_fresh':
      return { kind, leftMs: numberAt(words, FIRST) };
    default:
      throw unknownReply(kind);
  }
}

/** Of lua/abandoned.lua. @returns `undefined` if the record is not abandoned. */
export function parseAbandonedReply(
  reply: ScriptReply,
): Pick<AbandonedRecord, 'fingerprint' | 'origin'> | undefined {
  const words = wordsOf(reply);
  if (words[KIND] !== 'abandoned') return undefined;
  return { fingerprint: textAt(words, FIRST) as Fingerprint, origin: textAt(words, FIRST + 1) };
}
