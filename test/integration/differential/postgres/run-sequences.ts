import { randomBytes } from 'node:crypto';
import type { RecordKey, StoredRecord } from '../../../../lib/core/record.js';
import type { Watcher } from '../compare.js';
import { generateSequence } from '../generate-sequence.js';
import { encodeRecord } from '../redis-encoding.js';
import { expected } from '../reference.js';
import type { Step } from '../step.js';
import { ClockedStore, type Mutation } from './clocked-store.js';

const WORKERS = 4;

export interface Extent {
  /** Of the first sequence; each further one has the next number. */
  readonly seed: number;
  readonly sequences: number;
  readonly watch?: Watcher;
  readonly mutate?: Mutation;
}

/** @returns the first difference between store and reference, as a text to reproduce it from. */
export async function runSequences(url: string, extent: Extent): Promise<string | undefined> {
  const { seed, sequences, watch, mutate } = extent;
  let failure: string | undefined;
  let next = 0;
  const work = async () => {
    const store = new ClockedStore(url, mutate);
    try {
      while (next < sequences && failure === undefined) {
        const number = seed + next;
        next += 1;
        const difference = await runSequence(store, generateSequence(number), watch);
        failure ??= difference && `DIFFERENTIAL_SEED=${number}\n${difference}`;
      }
    } finally {
      await store.close();
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  return failure;
}

async function runSequence(
  store: ClockedStore,
  steps: readonly Step[],
  watch: Watcher = () => undefined,
): Promise<string | undefined> {
  const recordKey = randomBytes(32).toString('base64url') as RecordKey;
  let record: StoredRecord | undefined;
  for (const [index, step] of steps.entries()) {
    const { reply, record: after } = expected(record, step);
    const actual = {
      reply: await store.take(step, recordKey).catch((error: unknown) => String(error)),
      record: await store.record(recordKey),
    };
    const reference = { reply, record: after === undefined ? null : encodeRecord(after) };
    if (JSON.stringify(actual) !== JSON.stringify(reference)) {
      return [
        ...steps.slice(0, index + 1).map((each) => JSON.stringify(each)),
        `reference: ${JSON.stringify(reference)}`,
        `store:     ${JSON.stringify(actual)}`,
      ].join('\n');
    }
    if (reply !== undefined) watch(step, reply, record);
    record = after;
  }
  return undefined;
}
