import type { BeginReply } from '../../core/store/idempotency-store.js';
import { kindOf, numberAt, outcomeAt, unknownReply, type ScriptReply } from './script-reply.js';

/** The replies of lua/begin.lua. */
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
