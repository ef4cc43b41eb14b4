import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import { CacheStore } from '../../../lib/cache/cache-store.js';
import type { Clock } from '../../../lib/cache/age.js';
import { CACHE_DEFAULTS } from '../../../lib/core/cache-options.js';
import type { Begin, BeginReply, IdempotencyStore } from '../../../lib/core/idempotency-store.js';
import type { Fingerprint, RecordKey } from '../../../lib/core/record.js';
import type { PlantedMistake } from '../../support/planted-mistake.js';
import { checkRandomly } from '../../support/random-runs.js';
import { sequences } from './generate-sequence.js';
import { ReferenceStore } from './reference-store.js';
import { sendStep } from './send-step.js';
import type { Step } from './step.js';

type Wrap = (store: IdempotencyStore, clock: Clock) => IdempotencyStore;

/** No age is too old: what is answered from the memory has to be right for as long as the record lives. */
export const cached: Wrap = (store, clock) =>
  new CacheStore(store, LRUCache, { ...CACHE_DEFAULTS, maxAgeMs: Infinity }, clock);

/** How often the wrapped store answered from its memory. */
interface FromMemory {
  replays: number;
  mismatches: number;
}

/**
 * Sends random lives of a record to a bare store and to one with something around it.
 *
 * @throws the shrunk first difference.
 */
export async function checkCache(wrap: Wrap, runs: number): Promise<FromMemory> {
  const fromMemory = { replays: 0, mismatches: 0 };
  await checkRandomly({
    values: sequences,
    runs,
    atOnce: 100,
    check: (lives) => Promise.all(lives.map((steps) => firstDifference(wrap, steps, fromMemory))),
  });
  return fromMemory;
}

async function firstDifference(
  wrap: Wrap,
  steps: readonly Step[],
  fromMemory: FromMemory,
): Promise<string | undefined> {
  const [bare, behind] = [new ReferenceStore(), new ReferenceStore()];
  let passedMs = 0;
  // Time goes by in the process when it does at the server; only the server's clock is ever set back.
  const wrapped = wrap(behind, () => ({ monotonic: passedMs, wall: passedMs }));
  let lives = 0;
  for (const step of steps) {
    const before = bare.nowUs === 0 ? step.nowUs : bare.nowUs;
    passedMs += Math.max(0, step.nowUs - before) / 1000;
    for (const store of [bare, behind]) store.nowUs = step.nowUs;
    if (step.operation === 'lose') {
      // What a store has lost is answered for from the memory, on purpose: another record begins.
      lives += 1;
      for (const store of [bare, behind]) store.record = undefined;
      continue;
    }
    const recordKey = String(lives) as RecordKey;
    const expected = await sendStep(bare, step, recordKey, 0);
    const { asked } = behind;
    const reply = await sendStep(wrapped, step, recordKey, 0);
    if (!isSame(reply, expected) || !isDeepStrictEqual(behind.record, bare.record)) {
      return `The stores differ: ${JSON.stringify({ steps, step, expected, reply })}`;
    }
    if (step.operation === 'begin' && behind.asked === asked) {
      if ((expected as BeginReply).kind === 'mismatch') fromMemory.mismatches += 1;
      else fromMemory.replays += 1;
    }
  }
  return undefined;
}

/** From the memory a record lasts no longer than in the store, whose clock may have been set back meanwhile. */
function isSame(reply: unknown, expected: unknown): boolean {
  if (!isFromCache(reply)) return isDeepStrictEqual(reply, expected);
  const { fromCache: _, retentionLeftMs, outcome, ...rest } = reply;
  const finished = expected as typeof reply;
  return (
    rest.kind === finished.kind &&
    outcome.header === finished.outcome.header &&
    Buffer.from(finished.outcome.body).equals(outcome.body) &&
    retentionLeftMs > 0 &&
    retentionLeftMs <= finished.retentionLeftMs
  );
}

function isFromCache(reply: unknown): reply is Extract<BeginReply, { fromCache?: true }> {
  return (reply as { fromCache?: true } | undefined)?.fromCache === true;
}

interface Mistake extends PlantedMistake {
  readonly wrap: Wrap;
}

export const CACHE_MISTAKES: readonly Mistake[] = [
  mistake('a cache that does not count the time', (store) =>
    cached(store, () => ({ monotonic: 0, wall: 0 })),
  ),
  mistake('a cache that counts a hundredth too little', (store, clock) =>
    cached(store, () => ({ monotonic: clock().monotonic * 0.99, wall: 0 })),
  ),
  mistake('a cache that compares no content', (store, clock) => {
    const wrapped = cached(store, clock);
    const begin = wrapped.begin.bind(wrapped);
    wrapped.begin = (command: Begin) => begin({ ...command, fingerprint: '-' as Fingerprint });
    return wrapped;
  }),
];

function mistake(name: string, wrap: Wrap): Mistake {
  const suite = 'test/integration/differential/cache.test.ts';
  return { mistake: name, suite, objection: 'The stores differ', wrap };
}
