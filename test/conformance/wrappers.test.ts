import { describe, it } from '@jest/globals';
import { LRUCache } from 'lru-cache';
import {
  describeStoreConformance,
  type SteppableClock,
  type StoreUnderTest,
} from 'nestjs-idempotency/testing/store';
import Opossum from 'opossum';
import { CacheStore } from '../../lib/cache/cache-store.js';
import type { Clock } from '../../lib/cache/age.js';
import { BREAKER_DEFAULTS } from '../../lib/core/breaker-options.js';
import { CACHE_DEFAULTS } from '../../lib/core/cache-options.js';
import { BreakerStore } from '../../lib/resilience/breaker-store.js';
import { isTestAll } from '../support/test-all.js';
import { memoryUnderTest } from './memory-under-test.js';
import { redisOnItsOwnClock, redisUnderTest } from './redis-under-test.js';

/** What stands around a store is a store, and nobody behind it may notice. */
const breakerUnderTest: StoreUnderTest = {
  name: 'BreakerStore around MemoryIdempotencyStore',
  create: async () => {
    const { store: inner, ...harness } = await memoryUnderTest.create();
    const options = { ...BREAKER_DEFAULTS, probeTimeoutMs: 1_000 };
    const store = new BreakerStore(inner, Opossum, options, () => undefined);
    return { ...harness, store, dispose: () => store.close() };
  },
};

/** Time goes by in the process when it does at the server; only the server's clock is ever set back. */
function driven(clock: SteppableClock): { kit: SteppableClock; process: Clock } {
  let passedMs = 0;
  return {
    kit: {
      now: () => clock.now(),
      step: async (ms) => {
        passedMs += Math.max(0, ms);
        await clock.step(ms);
      },
    },
    process: () => ({ monotonic: passedMs, wall: passedMs }),
  };
}

/** Its replies come from the memory whenever they can: nothing is too old. */
function cacheAround(real: StoreUnderTest): StoreUnderTest {
  return {
    ...real,
    name: `CacheStore around ${real.name}`,
    create: async () => {
      const { store: inner, clock, ...harness } = await real.create();
      const options = { ...CACHE_DEFAULTS, maxAgeMs: Infinity };
      if (clock === undefined)
        return { ...harness, store: new CacheStore(inner, LRUCache, options) };
      const { kit, process } = driven(clock);
      return { ...harness, clock: kit, store: new CacheStore(inner, LRUCache, options, process) };
    },
  };
}

const WRAPPED = isTestAll
  ? [redisUnderTest, redisOnItsOwnClock].map(cacheAround)
  : [breakerUnderTest, cacheAround(memoryUnderTest)];

for (const store of WRAPPED) describeStoreConformance({ describe, it }, store);
