import { describe, expect, it, jest } from '@jest/globals';
import type { BeginReply, TransactionalRecords } from 'nestjs-idempotency';
import { StoreUnavailableError } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { LRUCache } from 'lru-cache';
import type { LruCacheConstructor } from '../../../lib/cache/load-lru-cache.js';
import {
  heldReply,
  heldRequest,
  lostReply,
  lostRequest,
  misconfigured,
  unavailable,
} from '../../support/faulty-store.js';
import { Gate } from '../../support/http/gate.js';
import { CacheUnderTest, newRecordKey, outcomeOf, RETENTION_MS } from './cache-under-test.js';

/** Of a reply that has one. */
function outcomeIn(reply: BeginReply) {
  if (!('outcome' in reply)) throw new Error(`begin answered ${reply.kind}`);
  return reply.outcome;
}

describe('a record that the store has said to be finished', () => {
  it.each(['completed', 'failed'] as const)(
    'is answered for without asking again: %s, with outcome and what is left of its retention',
    async (state) => {
      const cache = new CacheUnderTest();
      const recordKey = await cache.finished({ state, outcome: outcomeOf('paid ü', '[1,201]') });
      const first = await cache.begin(recordKey);
      expect(first).toEqual({
        kind: state,
        outcome: { header: '[1,201]', body: new Uint8Array(Buffer.from('paid ü')) },
        retentionLeftMs: RETENTION_MS,
      });
      cache.pass(1_234);
      expect(await cache.begin(recordKey)).toEqual({
        kind: state,
        outcome: { header: '[1,201]', body: Buffer.from('paid ü') },
        retentionLeftMs: RETENTION_MS - 1_234,
        fromCache: true,
      });
      expect(cache.asked).toBe(1);
    },
  );

  it('has bytes that no caller can change for the next one', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.finished();
    for (let time = 0; time < 3; time += 1) {
      const { body } = outcomeIn(await cache.begin(recordKey));
      expect(Buffer.from(body).toString()).toBe('done');
      body.fill(0);
    }
    expect(cache.asked).toBe(1);
  });

  it('is no longer answered for once the store is closed', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.cached();
    await cache.store.close();
    await expect(cache.begin(recordKey)).rejects.toThrow(StoreUnavailableError);
    expect(cache.inner.closed).toBe(true);
  });

  it('is not kept when its reply comes after close', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.finished();
    const gate = new Gate();
    gate.close();
    cache.inner.next('begin', heldReply(gate));
    const late = cache.begin(recordKey);
    await cache.store.close();
    gate.open();
    expect(await late).toMatchObject({ kind: 'completed' });
    await expect(cache.begin(recordKey)).rejects.toThrow(StoreUnavailableError);
  });
});

describe('what is not finished', () => {
  it('is not known from its completion either: the store is asked once', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.finished();
    expect(await cache.isCached(recordKey)).toBe(false);
    expect(await cache.isCached(recordKey)).toBe(true);
  });

  it.each([
    ['unavailable', unavailable],
    ['lost request', lostRequest],
    ['lost reply', lostReply],
  ])('leaves nothing behind where the store gave no reply: %s', async (_, fault) => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.finished();
    cache.inner.next('begin', fault);
    await expect(cache.begin(recordKey)).rejects.toThrow('planned');
    expect(await cache.isCached(recordKey)).toBe(false);
  });
});

describe('the retention', () => {
  it('counts from before the begin was sent, however long its reply took', async () => {
    const cache = new CacheUnderTest({ maxAgeMs: 2 * RETENTION_MS });
    const recordKey = await cache.finished();
    const gate = new Gate();
    gate.close();
    cache.inner.next('begin', heldReply(gate));
    const slow = cache.begin(recordKey);
    cache.pass(RETENTION_MS - 1_000);
    gate.open();
    expect(await slow).toMatchObject({ kind: 'completed', retentionLeftMs: RETENTION_MS });
    expect(await cache.begin(recordKey)).toMatchObject({ retentionLeftMs: 1_000, fromCache: true });
    cache.pass(1_000);
    expect(await cache.begin(recordKey)).toMatchObject({ kind: 'acquired' });
  });

  it('that was over when the reply came leaves nothing to answer with', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.finished();
    const gate = new Gate();
    gate.close();
    cache.inner.next('begin', heldReply(gate));
    const slow = cache.begin(recordKey);
    cache.pass(RETENTION_MS);
    gate.open();
    expect(await slow).toMatchObject({ kind: 'completed' });
    expect(await cache.begin(recordKey)).toMatchObject({ kind: 'acquired' });
  });

  it('is not stretched by a fraction of a millisecond that the store has left out', async () => {
    const cache = new CacheUnderTest({ maxAgeMs: 2 * RETENTION_MS });
    const recordKey = await cache.cached();
    cache.now = { ...cache.now, monotonic: cache.now.monotonic + RETENTION_MS - 0.5 };
    expect(await cache.isCached(recordKey)).toBe(false);
  });

  it('is not stretched by a clock of the process that is set back', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.cached();
    cache.pass(RETENTION_MS);
    cache.now = { ...cache.now, wall: 0 };
    expect(await cache.begin(recordKey)).toMatchObject({ kind: 'acquired' });
  });

  it('goes on while the machine sleeps, and its monotonic clock stands still', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.cached();
    const { monotonic } = cache.now;
    cache.pass(RETENTION_MS);
    cache.now = { ...cache.now, monotonic };
    expect(await cache.begin(recordKey)).toMatchObject({ kind: 'acquired' });
  });
});

describe('maxAgeMs', () => {
  it('bounds for how long a record is answered for that somebody has deleted', async () => {
    const real = memoryStore();
    const cache = new CacheUnderTest({ maxAgeMs: 5_000 }, real);
    const recordKey = await cache.cached();
    const begun: BeginReply = { kind: 'in_progress', leaseLeftMs: 1 };
    jest.spyOn(real, 'begin').mockResolvedValue(begun);
    cache.pass(4_999);
    expect(await cache.begin(recordKey)).toMatchObject({ kind: 'completed', fromCache: true });
    cache.pass(1);
    expect(await cache.begin(recordKey)).toEqual(begun);
    expect(await cache.begin(recordKey)).toEqual(begun);
  });

  it('counts from the question, and is not prolonged by asking', async () => {
    const cache = new CacheUnderTest({ maxAgeMs: 1_000 });
    const recordKey = await cache.cached();
    cache.pass(999);
    expect(await cache.isCached(recordKey)).toBe(true);
    cache.pass(1);
    expect(await cache.isCached(recordKey)).toBe(false);
    expect(await cache.isCached(recordKey)).toBe(true);
  });
});

describe('a store that is set up wrongly', () => {
  it('is not hidden behind what it has said before', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.cached();
    cache.inner.next('begin', misconfigured, misconfigured);
    await expect(cache.begin(newRecordKey())).rejects.toThrow('planned: misconfigured');
    await expect(cache.begin(recordKey)).rejects.toThrow('planned: misconfigured');
    expect(await cache.begin(recordKey)).toMatchObject({ kind: 'completed' });
    expect(await cache.isCached(recordKey)).toBe(true);
  });
});

describe('a store that is away', () => {
  it.each([
    ['unavailable', unavailable],
    ['silent', lostRequest],
  ])('is not missed by a replay: %s', async (_, fault) => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.cached();
    cache.inner.always(fault, 'begin');
    expect(await cache.begin(recordKey)).toMatchObject({ kind: 'completed', fromCache: true });
    await expect(cache.begin(newRecordKey())).rejects.toThrow('planned');
    cache.pass(RETENTION_MS);
    await expect(cache.begin(recordKey)).rejects.toThrow('planned');
  });
});

describe('all that is not begin', () => {
  it('passes: open and its warnings, watching, abandoned records, transactions', async () => {
    const cache = new CacheUnderTest();
    const { inner, store } = cache;
    const warnings = [{ code: 'planned', message: 'a warning' }];
    const page = { records: [] };
    const stop = () => undefined;
    const transactional = {} as TransactionalRecords;
    jest.spyOn(inner, 'open').mockResolvedValue(warnings);
    const watch = jest.spyOn(inner, 'watch').mockResolvedValue(stop);
    const abandoned = jest.spyOn(inner, 'abandoned').mockResolvedValue(page);
    Object.defineProperty(inner, 'transactional', { value: transactional });
    expect(await store.open()).toBe(warnings);
    const recordKey = newRecordKey();
    const onEnd = () => undefined;
    expect(await store.watch(recordKey, onEnd, { timeoutMs: 1 })).toBe(stop);
    expect(watch).toHaveBeenCalledWith(recordKey, onEnd, { timeoutMs: 1 });
    const asked = { overMs: 1, limit: 2, timeoutMs: 3 };
    expect(await store.abandoned(asked)).toBe(page);
    expect(abandoned).toHaveBeenCalledWith(asked);
    expect(store.transactional).toBe(transactional);
  });
});

describe('requests at the same time', () => {
  it('each ask the store until one of them has an answer', async () => {
    const cache = new CacheUnderTest();
    const recordKey = await cache.finished();
    const gate = new Gate();
    gate.close();
    cache.inner.next('begin', heldRequest(gate), heldRequest(gate));
    const both = [cache.begin(recordKey), cache.begin(recordKey)];
    gate.open();
    for (const reply of await Promise.all(both)) expect(reply).not.toHaveProperty('fromCache');
    expect(cache.asked).toBe(2);
    expect(await cache.isCached(recordKey)).toBe(true);
  });
});

it('the structure of lru-cache that the library declares is that of the package', () => {
  const Lru: LruCacheConstructor = LRUCache;
  const cache = new Lru<object>({ maxSize: 10 });
  cache.set('a', {}, { size: 7 });
  expect([cache.size, cache.calculatedSize, ...cache.rkeys()]).toEqual([1, 7, 'a']);
});
