import * as transitions from '../../../lib/core/record-transitions.js';
import type { RecordKey, StoredRecord } from '../../../lib/core/record.js';
import { encodeInspection, encodeRecord, encodeReply, type Fields } from './redis-encoding.js';
import type { Step } from './step.js';

const recordKey = 'unused by the transitions' as RecordKey;
const timeoutMs = 0;

export interface Expected {
  readonly record: StoredRecord | undefined;
  /** What the script answers; undefined where the step is no script. */
  readonly reply: Fields | undefined;
}

/** What the reference state machine makes of a step. */
export function expected(stored: StoredRecord | undefined, step: Step): Expected {
  const { nowUs } = step;
  switch (step.operation) {
    case 'begin': {
      const command = { ...step.command, recordKey, timeoutMs };
      const { reply, record } = transitions.begin(stored, command, nowUs);
      return { record, reply: encodeReply(reply) };
    }
    case 'extend': {
      const command = { ...step.command, timeoutMs };
      const lease = { ...step.lease, recordKey };
      const { reply, record } = transitions.extend(stored, lease, command, nowUs);
      return { record, reply: encodeReply(reply) };
    }
    case 'complete': {
      const command = { ...step.command, timeoutMs };
      const lease = { ...step.lease, recordKey };
      const { reply, record } = transitions.complete(stored, lease, command, nowUs);
      return { record, reply: encodeReply(reply) };
    }
    case 'release': {
      const command = { ...step.command, timeoutMs };
      const lease = { ...step.lease, recordKey };
      const { reply, record } = transitions.release(stored, lease, command, nowUs);
      return { record, reply: encodeReply(reply) };
    }
    case 'inspect':
      return { record: stored, reply: encodeInspection(transitions.inspect(stored, nowUs)) };
    case 'lose':
      return { record: undefined, reply: undefined };
  }
}

/** The record as Redis holds it: its bytes, and when Redis would delete it. */
export function expectedValue(record: StoredRecord | undefined): {
  value: string | null;
  expiresAt: number;
} {
  // -2 is how PEXPIRETIME says that there is no key.
  if (record === undefined) return { value: null, expiresAt: -2 };
  return { value: encodeRecord(record), expiresAt: record.expiresAt };
}
