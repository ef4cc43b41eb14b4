import type { IdempotencyStore, RecordKey } from '../../support/internals/core.js';
import type { Step } from './step.js';

/** Sends a step to a store, through the port. */
export function sendStep(
  store: IdempotencyStore,
  step: Exclude<Step, { operation: 'lose' }>,
  recordKey: RecordKey,
  timeoutMs: number,
): Promise<unknown> {
  const timed = { timeoutMs };
  switch (step.operation) {
    case 'begin':
      return store.begin({ ...step.command, ...timed, recordKey });
    case 'extend':
      return store.extend({ ...step.lease, recordKey }, { ...step.command, ...timed });
    case 'complete':
      return store.complete({ ...step.lease, recordKey }, { ...step.command, ...timed });
    case 'release':
      return store.release({ ...step.lease, recordKey }, { ...step.command, ...timed });
    case 'inspect':
      return store.inspect(recordKey, timed);
  }
}
