import { afterEach, beforeEach, jest } from '@jest/globals';
import { driveTimers } from '../../../support/standing-time.js';

/** Time that passes when a test says so. */
export interface DrivenTime {
  /** For a memory store. */
  readonly now: () => number;
  /** As if everybody had stood still for so long. */
  readonly pass: (ms: number) => Promise<void>;
}

/** From before each test of this file: of the timers of this process, and of the stores that get its `now`. */
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
