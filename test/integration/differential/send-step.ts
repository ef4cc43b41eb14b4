import type { IdempotencyStore, List, RecordKey } from '../../support/internals/core.js';
import { encodeInspection, encodeReply, type Fields } from './encoding.js';
import type { Step } from './step.js';

/** Sends a step to a store, through the port. @returns what the store has replied, for the comparison. */
export async function sendStep(
  store: IdempotencyStore,
  step: SentStep,
  recordKey: RecordKey,
  timeoutMs: number,
): Promise<Fields> {
  const reply = await replyOf(store, step, recordKey, timeoutMs);
  return step.operation === 'inspect' || step.operation === 'list'
    ? encodeInspection(reply as Parameters<typeof encodeInspection>[0])
    : encodeReply(reply as Parameters<typeof encodeReply>[0]);
}

type SentStep = Exclude<Step, { operation: 'lose' }>;

function replyOf(
  store: IdempotencyStore,
  step: SentStep,
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
