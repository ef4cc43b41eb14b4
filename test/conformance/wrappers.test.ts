import { describe, it } from '@jest/globals';
import { DelegatingStore } from 'nestjs-idempotency/store';
import { describeStoreConformance, type StoreUnderTest } from 'nestjs-idempotency/testing/store';
import Opossum from 'opossum';
import { resolveGroup } from '../support/internals/core.js';
import { BREAKER, BreakerStore } from '../support/internals/breaker.js';
import { memoryUnderTest } from './memory-under-test.js';

/** A wrapper is itself a store and must pass every case. */
const breakerUnderTest: StoreUnderTest = {
  name: 'BreakerStore around MemoryIdempotencyStore',
  create: async () => {
    const { store: inner, ...harness } = await memoryUnderTest.create();
    const options = { ...resolveGroup('breaker', BREAKER), probeTimeoutMs: 1_000 };
    const store = new BreakerStore(inner, Opossum, options, () => undefined);
    return { ...harness, store, dispose: () => store.close() };
  },
};

const delegatingUnderTest: StoreUnderTest = {
  name: 'DelegatingStore around MemoryIdempotencyStore',
  create: async () => {
    const { store: inner, ...harness } = await memoryUnderTest.create();
    const store = new DelegatingStore(inner);
    return { ...harness, store, dispose: () => store.close() };
  },
};

describeStoreConformance({ describe, it }, breakerUnderTest);
describeStoreConformance({ describe, it }, delegatingUnderTest);
