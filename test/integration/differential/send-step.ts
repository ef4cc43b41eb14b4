import type { IdempotencyStore, List, RecordKey } from '../../support/internals/core.js';
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
    case 'amend':
      return store.amend({ ...step.command, ...timed, recordKey });
    case 'inspect':
      return store.inspect(recordKey, timed);
    case 'list':
      return entryOf(store, { keyPrefix: recordKey, limit: 10, maxScanned: 10, ...timed });
  }
}

async function entryOf(store: IdempotencyStore, command: List): Promise<unknown> {
  const page = await store.list(command);
  const [entry] = page?.records ?? [];
  if (entry === undefined) return undefined;
  const { recordKey: _, ...record } = entry;
  return record;
}
