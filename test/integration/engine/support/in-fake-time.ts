import { beforeEach } from '@jest/globals';
import type { LimitsOptions } from '../../../support/internals/core.js';
import { StandingClock } from '../../../support/clocks/standing-clock.js';
import { Worker } from '../../../support/engine/worker.js';
import { PromptStore } from '../../../support/stores/prompt-store.js';

export interface FakeTime {
  /** Of all workers, and of the store. */
  readonly clock: StandingClock;
  readonly store: PromptStore;
  /** Another process on the same store. */
  worker(limits?: LimitsOptions): Worker;
  /** Advances time, and runs everything that is due. */
  pass(ms: number): Promise<void>;
  /** Moves the store's clock alone, as a failover to another server may. */
  skewStore(ms: number): void;
  /** Milliseconds since the test began. */
  readonly elapsed: number;
}

/** Before each test: stops the clock of workers and store, and creates an empty memory store. */
export function inFakeTime(): FakeTime {
  let clock: StandingClock;
  let startedAt: number;
  let skew: number;
  let store: PromptStore;
  beforeEach(() => {
    clock = new StandingClock();
    startedAt = clock.now();
    skew = 0;
    store = new PromptStore({ now: () => clock.wallTime() + skew });
  });
  return {
    get clock() {
      return clock;
    },
    get store() {
      return store;
    },
    worker: (limits) => new Worker(store, limits, clock),
    pass: (ms) => clock.advance(ms),
    skewStore: (ms) => void (skew += ms),
    get elapsed() {
      return clock.now() - startedAt;
    },
  };
}
