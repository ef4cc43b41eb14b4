import { describe, expect, it } from '@jest/globals';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { DelegatingStore } from 'nestjs-idempotency/store';
import {
  describeStoreConformance,
  storeConformanceCases,
  type StoreUnderTest,
} from 'nestjs-idempotency/testing/store';
import Opossum from 'opossum';
import { BREAKER, BreakerStore } from '../support/internals/breaker.js';
import { resolveGroup } from '../support/internals/core.js';
import { BROKEN_STORES } from './broken-stores.js';
import { memoryUnderTest } from './memory-under-test.js';
import { refutations } from './refutations.js';

describe('the conformance kit rejects a store that', () => {
  // mutants.all.test.ts runs all of them.
  it.each(BROKEN_STORES.slice(0, 1))('$mistake', async ({ create, objection }) => {
    expect(await refutations(create)).toContain(objection);
  });

  it('is correct: in no case', async () => {
    expect(await refutations((now) => memoryStore({ now }))).toEqual([]);
  });
});

describe('the conformance kit', () => {
  it('has at least sixty cases with distinct names', () => {
    const names = storeConformanceCases.map(({ operation, name }) => `${operation} ${name}`);
    expect(names.length).toBeGreaterThanOrEqual(60);
    expect(new Set(names).size).toBe(names.length);
  });

  it('accepts a store that does not list abandoned records', async () => {
    class WithoutList extends MemoryIdempotencyStore {
      override abandoned() {
        return Promise.resolve(undefined as never);
      }
    }
    expect(await refutations((now) => new WithoutList({ now }))).toEqual([]);
  });

  it('accepts a store that an operator can neither list nor amend', async () => {
    class WithoutVerbs extends MemoryIdempotencyStore {
      override list() {
        return Promise.resolve(undefined as never);
      }
      override amend() {
        return Promise.resolve(undefined as never);
      }
    }
    expect(await refutations((now) => new WithoutVerbs({ now }))).toEqual([]);
  });

  it('throws when a case that needs a clock runs without one', () => {
    const timed = storeConformanceCases.find(({ needsClock }) => needsClock)!;
    expect(() => timed.run({ store: memoryStore() })).toThrow('needs a steppable clock');
  });
});

describe('wrappers', () => {
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
});
