import type { Fingerprint } from '../../core/record/record.js';
import type { IdempotencyRecord } from '../../core/store/idempotency-store.js';
import { NO_ORIGIN } from './record-text.js';
import {
  kindOf,
  numberAt,
  outcomeAt,
  textAt,
  unknownReply,
  type ScriptReply,
} from './script-reply.js';

/** The replies of lua/inspect.lua. */
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
