import { afterEach, beforeEach, jest } from '@jest/globals';
import { driveTimers } from '../../../support/clocks/standing-time.js';

/** Time that passes only when a test advances it. */
export interface DrivenTime {
  /** The clock of a memory store. */
  readonly now: () => number;
  /** Advances timers and clock together. */
  readonly pass: (ms: number) => Promise<void>;
}

/** Drives the timers of this process, and the stores that get its `now`, from before each test of this file. */
export function useDrivenTime(): DrivenTime {
  let passedMs = 0;
  beforeEach(() => driveTimers(true));
  afterEach(() => void jest.useRealTimers());
  return {
    now: () => Date.now() + passedMs,
    pass: async (ms) => {
      passedMs += ms;
      await jest.advanceTimersByTimeAsync(ms);
    },
  };
}
