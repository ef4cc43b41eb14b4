import type {
  Fingerprint,
  FinishedState,
  Outcome,
  RecordState,
} from '../../../core/record/record.js';
import type {
  BeginReply,
  CompleteReply,
  ExtendReply,
  IdempotencyRecord,
  ReleaseReply,
} from '../../../core/store/idempotency-store.js';
import { StoreConfigurationError } from '../../../core/util/errors.js';
import { NO_ORIGIN } from './record-text.js';

/** Nonce, kind, data. Text, and numbers that the script has as text, are bytes; other numbers may be strings. */
export type ScriptReply = readonly ReplyField[];

type ReplyField = Buffer | string | number;

/** Check this before anything else: the position of a reply does not prove that it belongs to a command. */
export function isReplyTo(nonce: string, reply: unknown): reply is ScriptReply {
  if (!Array.isArray(reply)) return false;
  const firstWord: unknown = reply[0];
  return Buffer.isBuffer(firstWord) && firstWord.toString('latin1') === nonce;
}

/** The reply of Redis to each command between MULTI and EXEC. */
export function isQueued(reply: unknown): boolean {
  return (typeof reply === 'string' || Buffer.isBuffer(reply)) && reply.toString() === 'QUEUED';
}

export function kindOf(reply: ScriptReply): string {
  return textAt(reply, 0);
}

export function textAt(reply: ScriptReply, index: number): string {
  return fieldAt(reply, index).toString();
}

function numberAt(reply: ScriptReply, index: number): number {
  return Number(textAt(reply, index));
}

/** An outcome takes two fields: header and bytes. */
function outcomeAt(reply: ScriptReply, index: number): Outcome {
  return { header: textAt(reply, index), body: fieldAt(reply, index + 1) as Buffer };
}

function unknownReply(reply: ScriptReply): StoreConfigurationError {
  return new StoreConfigurationError(
    `Unexpected reply from a script of the store: ${kindOf(reply).slice(0, 40)}`,
  );
}

function fieldAt(reply: ScriptReply, index: number): ReplyField {
  // The nonce comes first.
  const field = reply[index + 1];
  if (field === undefined)
    throw new StoreConfigurationError('The reply from a script of the store lacks a field');
  return field;
}

/** The replies of lua/begin.lua; below, those of its neighbours. */
export function parseBeginReply(reply: ScriptReply): BeginReply {
  const kind = kindOf(reply);
  switch (kind) {
    case 'acquired':
    case 'owned':
    case 'takeover':
      return {
        kind,
        fence: numberAt(reply, 1),
        now: numberAt(reply, 2),
        attempt: numberAt(reply, 3),
        takeovers: numberAt(reply, 4),
      };
    case 'completed':
    case 'failed':
      return { kind, retentionLeftMs: numberAt(reply, 1), outcome: outcomeAt(reply, 2) };
    case 'in_progress':
      return { kind, leaseLeftMs: numberAt(reply, 1) };
    case 'abandoned':
      return {
        kind,
        fence: numberAt(reply, 1),
        overMs: numberAt(reply, 2),
        attempt: numberAt(reply, 3),
        takeovers: numberAt(reply, 4),
      };
    case 'mismatch':
    case 'stale_begin':
      return { kind };
    case 'late':
      return { kind, now: numberAt(reply, 1) };
    default:
      throw unknownReply(reply);
  }
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
      throw unknownReply(reply);
  }
}

export function parseCompleteReply(reply: ScriptReply): CompleteReply {
  const kind = kindOf(reply);
  switch (kind) {
    case 'ok':
    case 'ok_late':
    case 'already':
    case 'restored':
    case 'gone':
      return { kind };
    case 'superseded':
      return { kind, state: textAt(reply, 1) as FinishedState, outcome: outcomeAt(reply, 2) };
    case 'lost':
      return { kind, state: textAt(reply, 1) as RecordState, fence: numberAt(reply, 2) };
    default:
      throw unknownReply(reply);
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
      throw unknownReply(reply);
  }
}

export function parseInspectReply(reply: ScriptReply): IdempotencyRecord | undefined {
  const state = kindOf(reply);
  switch (state) {
    case 'absent':
      return undefined;
    case 'in_progress': {
      const origin = textAt(reply, 7);
      const record = { state, ...commonFields(reply), leaseLeftMs: numberAt(reply, 6) };
      return origin === NO_ORIGIN ? record : { ...record, origin };
    }
    case 'completed':
    case 'failed':
      return { state, ...commonFields(reply), outcome: outcomeAt(reply, 6) };
    case 'released':
      return { state, ...commonFields(reply) };
    default:
      throw unknownReply(reply);
  }
}

function commonFields(reply: ScriptReply): Omit<IdempotencyRecord, 'state'> {
  return {
    fence: numberAt(reply, 1),
    attempt: numberAt(reply, 2),
    takeovers: numberAt(reply, 3),
    fingerprint: textAt(reply, 4) as Fingerprint,
    retentionLeftMs: numberAt(reply, 5),
  };
}
