import { transitions, type RecordKey, type StoredRecord } from '../../../support/internals/core.js';
import { encodeInspection, encodeReply, type Fields } from '../encoding.js';
import type { Step } from '../step.js';

const unused = { recordKey: 'unused by the transitions' as RecordKey, timeoutMs: 0 };

export interface Expected {
  readonly record: StoredRecord | undefined;
  /** The reply of the store; undefined where the step expects none. */
  readonly reply: Fields | undefined;
}

/** The result of a step in the reference state machine. */
export function expected(stored: StoredRecord | undefined, step: Step): Expected {
  if (step.operation === 'lose') return { record: undefined, reply: undefined };
  if (step.operation === 'inspect') {
    return { record: stored, reply: encodeInspection(transitions.inspect(stored, step.nowUs)) };
  }
  if (step.operation === 'list') {
    const { outcome: _, ...listed } = transitions.inspect(stored, step.nowUs) ?? {};
    const shown = 'state' in listed ? listed : undefined;
    return { record: stored, reply: encodeInspection(shown) };
  }
  const { reply, record } = transition(stored, step);
  return { record, reply: encodeReply(reply) };
}

function transition(
  stored: StoredRecord | undefined,
  step: Exclude<Step, { operation: 'lose' | 'inspect' | 'list' }>,
) {
  const { nowUs } = step;
  if (step.operation === 'begin') {
    return transitions.begin(stored, { ...step.command, ...unused }, nowUs);
  }
  if (step.operation === 'amend') {
    return transitions.amend(stored, { ...step.command, ...unused }, nowUs);
  }
  const lease = { ...step.lease, ...unused };
  switch (step.operation) {
    case 'extend':
      return transitions.extend(stored, lease, { ...step.command, ...unused }, nowUs);
    case 'complete':
      return transitions.complete(stored, lease, { ...step.command, ...unused }, nowUs);
    case 'release':
      return transitions.release(stored, lease, { ...step.command, ...unused }, nowUs);
  }
}
