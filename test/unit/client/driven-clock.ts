import { jest } from '@jest/globals';

/**
 * Timers and the monotonic clock of the client, driven by the test, while sockets run in real time: Node's own timers
 * are not those of the test's realm.
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

  release(): void {
    jest.useRealTimers();
  },

  /** Resolves as soon as exactly this many timers are pending. */
  async untilTimers(count: number): Promise<void> {
    while (jest.getTimerCount() !== count) await new Promise((resolve) => setImmediate(resolve));
  },

  timers: () => jest.getTimerCount(),

  advance: (ms: number) => jest.advanceTimersByTime(ms),
};
