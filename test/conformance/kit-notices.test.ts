import { describe, expect, it } from '@jest/globals';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { storeConformanceCases } from 'nestjs-idempotency/testing/store';
import { BROKEN_STORES } from './broken-stores.js';
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

  it('throws when a case that needs a clock runs without one', () => {
    const timed = storeConformanceCases.find(({ needsClock }) => needsClock)!;
    expect(() => timed.run({ store: memoryStore() })).toThrow('needs a steppable clock');
  });
});
