import { describe, expect, it } from '@jest/globals';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { storeConformanceCases } from 'nestjs-idempotency/testing/store';
import { BROKEN_STORES } from './broken-stores.js';
import { refutations } from './refutations.js';

describe('the conformance kit refuses a store that', () => {
  // All of them: mutants.all.test.ts.
  it.each(BROKEN_STORES.slice(0, 1))('$mistake', async ({ create, objection }) => {
    expect(await refutations(create)).toContain(objection);
  });

  it('does nothing wrong, in no case', async () => {
    expect(await refutations((now) => memoryStore({ now }))).toEqual([]);
  });
});

describe('the conformance kit', () => {
  it('has at least sixty cases, and no two of one name', () => {
    const names = storeConformanceCases.map(({ operation, name }) => `${operation} ${name}`);
    expect(names.length).toBeGreaterThanOrEqual(60);
    expect(new Set(names).size).toBe(names.length);
  });

  it('has nothing against a store that does not list abandoned records', async () => {
    class WithoutList extends MemoryIdempotencyStore {
      override abandoned() {
        return Promise.resolve(undefined as never);
      }
    }
    expect(await refutations((now) => new WithoutList({ now }))).toEqual([]);
  });

  it('does not run a case that needs a clock without one', () => {
    const timed = storeConformanceCases.find(({ needsClock }) => needsClock)!;
    expect(() => timed.run({ store: memoryStore() })).toThrow('needs a steppable clock');
  });
});
