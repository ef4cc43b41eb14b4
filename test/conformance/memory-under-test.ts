import { memoryStore } from 'nestjs-idempotency/memory';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';

export const memoryUnderTest: StoreUnderTest = {
  name: 'MemoryIdempotencyStore',
  create: () => {
    let now = 1_900_000_000_000;
    const store = memoryStore({ now: () => now });
    const clock = { now: () => now, step: (ms: number) => void (now += ms) };
    return { store, clock, dispose: () => store.close() };
  },
};
