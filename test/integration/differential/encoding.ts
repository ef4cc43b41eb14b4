import type {
  AmendReply,
  BeginReply,
  CompleteReply,
  ExtendReply,
  IdempotencyRecord,
  ReleaseReply,
  Outcome,
  StoredRecord,
} from '../../support/internals/core.js';

/**
 * Encodes replies and records of the reference, independently of the stores' own code: replies as the headers of the Lua
 * files list their fields. Bytes are written as latin1, one character each.
 */
export type Fields = readonly string[];

type Reply = BeginReply | ExtendReply | CompleteReply | ReleaseReply | AmendReply;

export function encodeReply(reply: Reply): Fields {
  return [...encodeFields(reply), ...('note' in reply ? [reply.note] : [])];
}

function encodeFields(reply: Reply): Fields {
  switch (reply.kind) {
    case 'acquired':
    case 'owned':
    case 'takeover':
      return fields(reply.kind, reply.fence, reply.now, reply.attempt, reply.takeovers);
    case 'in_progress':
    case 'running':
      return fields(reply.kind, reply.leaseLeftMs);
    case 'ok':
      return 'fence' in reply ? fields(reply.kind, reply.fence) : [reply.kind];
    case 'changed':
      return fields(reply.kind, reply.state, reply.fence);
    case 'too_fresh':
      return fields(reply.kind, reply.leftMs);
    case 'abandoned':
      return fields(reply.kind, reply.fence, reply.overMs, reply.attempt, reply.takeovers);
    case 'completed':
    case 'failed':
      return fields(reply.kind, reply.retentionLeftMs, ...encodeOutcome(reply.outcome));
    case 'late':
      return fields(reply.kind, reply.now);
    case 'superseded':
      return fields(reply.kind, reply.state, ...encodeOutcome(reply.outcome));
    case 'lost':
      return 'state' in reply ? fields(reply.kind, reply.state, reply.fence) : [reply.kind];
    default:
      return [reply.kind];
  }
}

export function encodeInspection(record: IdempotencyRecord | undefined): Fields {
  if (record === undefined) return ['absent'];
  const { state, fence, attempt, takeovers, fingerprint, note = '-' } = record;
  const durations = [record.ageMs, record.retentionLeftMs];
  const common = fields(state, fence, attempt, takeovers, fingerprint, ...durations, note);
  if (record.outcome !== undefined) return [...common, ...encodeOutcome(record.outcome)];
  if (record.leaseLeftMs === undefined) return common;
  return [...common, String(record.leaseLeftMs), record.origin ?? '-'];
}

export function encodeRecord(record: StoredRecord): string {
  const { fence, expiresAt, attempt, takeovers, token, fingerprint, note = '-' } = record;
  const tail = fields(expiresAt, attempt, takeovers, token, fingerprint, note);
  switch (record.state) {
    case 'in_progress': {
      const { leaseUntil, leaseMs, deadline, origin } = record;
      return `${fields('p', fence, leaseUntil, leaseMs, deadline, ...tail, origin ?? '-').join(' ')}\n`;
    }
    case 'released':
      return `${fields('r', fence, ...tail).join(' ')}\n`;
    default: {
      const line = fields(record.state === 'completed' ? 'c' : 'f', fence, ...tail).join(' ');
      return [line, ...encodeOutcome(record.outcome)].join('\n');
    }
  }
}

export function encodeOutcome({ header, body }: Outcome): Fields {
  return [Buffer.from(header).toString('latin1'), Buffer.from(body).toString('latin1')];
}

function fields(...values: (string | number)[]): Fields {
  return values.map(String);
}
