import type { FinishedState, RecordState } from '../../core/record/record.js';
import type {
  CompleteReply,
  ExtendReply,
  ReleaseReply,
} from '../../core/store/idempotency-store.js';
import {
  kindOf,
  numberAt,
  outcomeAt,
  textAt,
  unknownReply,
  type ScriptReply,
} from './script-reply.js';

/** The replies of lua/extend.lua. */
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

/** The replies of lua/complete.lua. */
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

/** The replies of lua/release.lua. */
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
