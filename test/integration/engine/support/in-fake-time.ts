import { afterEach, beforeEach, jest } from '@jest/globals';
import type { LimitsOptions } from '../../../support/internals/core/operation.js';
import { Worker } from '../../../support/engine/worker.js';
import { PromptStore } from '../../../support/stores/prompt-store.js';

export interface FakeTime {
  /** Another process on the same store. */
  worker(limits?: LimitsOptions): Worker;
  /** Advances time, and runs everything that is due. */
  pass(ms: number): Promise<void>;
  /** Moves the store's clock alone, as a failover to another server may. */
  skewStore(ms: number): void;
  /** Milliseconds since the test began. */
  readonly elapsed: number;
}

/** Before each test: freezes the clock of workers and store, and creates an empty memory store. */
export function inFakeTime(): FakeTime {
  let startedAt: number;
  let skew: number;
  let store: PromptStore;
  beforeEach(() => {
    // Drives timers, performance.now() and Date.now() together.
    jest.useFakeTimers();
    startedAt = performance.now();
    skew = 0;
    store = new PromptStore({ now: () => Date.now() + skew });
  });
  afterEach(() => void jest.useRealTimers());
  return {
    worker: (limits) => new Worker(store, limits),
    pass: (ms) => jest.advanceTimersByTimeAsync(ms),
    skewStore: (ms) => void (skew += ms),
    get elapsed() {
      return performance.now() - startedAt;
    },
  };
}
