import { afterEach, beforeEach, jest } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { EngineOptions } from '../../../../lib/core/options.js';
import { Worker } from './worker.js';

export interface FakeTime {
  /** A further process on the same store. */
  worker(options?: EngineOptions): Worker;
  /** Lets time pass, and everything happen that is due. */
  pass(ms: number): Promise<void>;
  /** Moves the store's clock alone, as a failover to another server may. */
  skewStore(ms: number): void;
  /** Milliseconds that passed since the test began. */
  readonly elapsed: number;
}

/** Before each test: a clock that stands still for workers and store, and an empty memory store. */
export function inFakeTime(): FakeTime {
  let startedAt: number;
  let skew: number;
  let store: ReturnType<typeof memoryStore>;
  beforeEach(() => {
    // Drives timers, performance.now() and Date.now() together.
    jest.useFakeTimers();
    startedAt = performance.now();
    skew = 0;
    store = memoryStore({ now: () => Date.now() + skew });
  });
  afterEach(() => void jest.useRealTimers());
  return {
    worker: (options) => new Worker(store, options),
    pass: (ms) => jest.advanceTimersByTimeAsync(ms),
    skewStore: (ms) => void (skew += ms),
    get elapsed() {
      return performance.now() - startedAt;
    },
  };
}
