import { randomInt } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { LRUCache } from 'lru-cache';
import { CacheStore } from '../../../lib/cache/cache-store.js';
import type { Clock } from '../../../lib/cache/age.js';
import { CACHE_DEFAULTS } from '../../../lib/core/cache-options.js';
import type { Begin, BeginReply, IdempotencyStore } from '../../../lib/core/idempotency-store.js';
import type { Fingerprint, RecordKey } from '../../../lib/core/record.js';
import { generateSequence } from './generate-sequence.js';
import { ReferenceStore } from './reference-store.js';
import type { Step } from './step.js';

/** DIFFERENTIAL_SEED replays: the sequence of that number comes first. */
const seed = Number(process.env.DIFFERENTIAL_SEED ?? randomInt(2 ** 31));
const SEQUENCES = 10_000;
const FROM_MEMORY_AT_LEAST = 1_000;
const timeoutMs = 0;

type Wrap = (store: IdempotencyStore, clock: Clock) => IdempotencyStore;

/** No age is too old: what is answered from the memory has to be right for as long as the record lives. */
const cached: Wrap = (store, clock) =>
  new CacheStore(store, LRUCache, { ...CACHE_DEFAULTS, maxAgeMs: Infinity }, clock);

interface Comparison {
  /** The first difference, as a text to reproduce it from. */
  readonly failure: string | undefined;
  readonly replays: number;
  readonly mismatches: number;
}

/** Sends the same random lives of a record to a bare store and to one with something around it. */
async function compare(wrap: Wrap): Promise<Comparison> {
  let replays = 0;
  let mismatches = 0;
  for (let number = seed; number < seed + SEQUENCES; number += 1) {
    const [bare, behind] = [new ReferenceStore(), new ReferenceStore()];
    let passedMs = 0;
    // Time goes by in the process when it does at the server; only the server's clock is ever set back.
    const wrapped = wrap(behind, () => ({ monotonic: passedMs, wall: passedMs }));
    let lives = 0;
    for (const step of generateSequence(number)) {
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
      const expected = await send(bare, recordKey, step);
      const { asked } = behind;
      const reply = await send(wrapped, recordKey, step);
      const isEqual = isSame(reply, expected) && isDeepStrictEqual(behind.record, bare.record);
      if (!isEqual) {
        const told = JSON.stringify({ step, expected, reply });
        return { failure: `DIFFERENTIAL_SEED=${number}: ${told}`, replays, mismatches };
      }
      if (step.operation === 'begin' && behind.asked === asked) {
        if ((expected as BeginReply).kind === 'mismatch') mismatches += 1;
        else replays += 1;
      }
    }
  }
  return { failure: undefined, replays, mismatches };
}

function send(store: IdempotencyStore, recordKey: RecordKey, step: Step): Promise<unknown> {
  switch (step.operation) {
    case 'begin':
      return store.begin({ ...step.command, recordKey, timeoutMs });
    case 'extend':
      return store.extend({ ...step.lease, recordKey }, { ...step.command, timeoutMs });
    case 'complete':
      return store.complete({ ...step.lease, recordKey }, { ...step.command, timeoutMs });
    case 'release':
      return store.release({ ...step.lease, recordKey }, { ...step.command, timeoutMs });
    case 'inspect':
      return store.inspect(recordKey, { timeoutMs });
    case 'lose':
      throw new Error('nobody can send that');
  }
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

describe('a store with the cache around it', () => {
  it('replies like the bare one, whatever comes in whatever order', async () => {
    const { failure, replays, mismatches } = await compare(cached);
    expect(failure).toBeUndefined();
    expect(replays).toBeGreaterThan(FROM_MEMORY_AT_LEAST);
    expect(mismatches).toBeGreaterThan(FROM_MEMORY_AT_LEAST / 10);
  });
});

describe('the comparison notices a cache that', () => {
  const WRONG: Record<string, Wrap> = {
    'does not count the time': (store) => cached(store, () => ({ monotonic: 0, wall: 0 })),
    'counts a hundredth too little': (store, clock) =>
      cached(store, () => ({ monotonic: clock().monotonic * 0.99, wall: 0 })),
    'compares no content': (store, clock) => {
      const wrapped = cached(store, clock);
      const begin = wrapped.begin.bind(wrapped);
      wrapped.begin = (command: Begin) => begin({ ...command, fingerprint: '-' as Fingerprint });
      return wrapped;
    },
  };

  it.each(Object.entries(WRONG))('%s', async (_name, wrap) => {
    expect((await compare(wrap)).failure).toContain('DIFFERENTIAL_SEED');
  });
});
