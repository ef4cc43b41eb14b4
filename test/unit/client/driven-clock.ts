import { jest } from '@jest/globals';

/**
 * Timers and the monotonic clock of the client in the test's hands, while sockets go on in real time: Node's
 * own timers are not those of the test's realm.
 */
export const drivenClock = {
  take(): void {
    jest.useFakeTimers({
      doNotFake: [
        'Date',
        'hrtime',
        'nextTick',
        'queueMicrotask',
        'setImmediate',
        'clearImmediate',
        'setInterval',
        'clearInterval',
      ],
    });
  },

  giveBack(): void {
    jest.useRealTimers();
  },

  /** Resolves as soon as exactly so many timers wait. */
  async untilTimers(count: number): Promise<void> {
    while (jest.getTimerCount() !== count) await new Promise((resolve) => setImmediate(resolve));
  },

  timers: () => jest.getTimerCount(),

  advance: (ms: number) => jest.advanceTimersByTime(ms),
};
