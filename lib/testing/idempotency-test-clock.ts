import { clearTimeout, setTimeout } from 'node:timers';
import type { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import type { Duration } from '../core/options/duration.js';
import { checkDuration } from '../core/options/option-checks.js';
import type { DrivenClock } from './driven-clock.js';

/** Taken now: a test may replace the global ones, and their properties of the module. */
const real = { setTimeout, clearTimeout };

/**
 * Moves the time of an application with `IdempotencyTestingModule.inMemory()`: that of records and leases, heartbeats,
 * deadlines, waiting duplicates and the reconciler. Without it, time goes by itself. Get it from the application:
 * `app.get(IdempotencyTestClock)`.
 */
export class IdempotencyTestClock {
  /** @internal */
  constructor(
    private readonly clock: DrivenClock,
    private readonly engine: IdempotencyEngine,
  ) {}

  /**
   * Moves time. All timers that become due are called in their order, each at its own instant, and promises
   * settle in between. It does not wait for the network, or for timers of the application itself.
   * @param by - such as `'1h'`, or a whole number of milliseconds; up to ten years.
   * @throws {@link IdempotencyOptionsError} for anything else.
   */
  async advance(by: Duration): Promise<void> {
    await this.clock.advance(checkDuration('by', by, '0ms', '3650d'));
  }

  /**
   * Moves time until no operation runs, no duplicate waits, and no pause of the library is left; heartbeats and the
   * reconciler's next round are none. Time is not moved over an operation that runs: it may take real time to end, and
   * duplicates wait for it.
   * @param timeout - of real time, from `'1ms'` to `'20d'`. Jest and Vitest give a test 5 s.
   * @throws Error if operations still run after `timeout`, or duplicates still wait.
   * @throws {@link IdempotencyOptionsError} for an invalid `timeout`.
   */
  async runUntilIdle(timeout: Duration = '4s'): Promise<void> {
    const timeoutMs = checkDuration('timeout', timeout, '1ms', '20d');
    const { clock, engine } = this;
    const wait = { isOver: false };
    const timer = real.setTimeout(() => (wait.isOver = true), timeoutMs);
    try {
      for (;;) {
        await clock.settled();
        const isRunning = !isEmpty(engine.running());
        if (!isRunning && !clock.isAwaited && isEmpty(engine.waiting())) return;
        if (wait.isOver) throw this.notIdle(timeoutMs);
        if (!isRunning && clock.isAwaited) await clock.advanceToNext();
        else await new Promise((resolve) => real.setTimeout(resolve, 1));
      }
    } finally {
      real.clearTimeout(timer);
    }
  }

  private notIdle(timeoutMs: number): Error {
    const running = Array.from(this.engine.running(), ({ request }) => request.operation);
    const waiting = Array.from(this.engine.waiting(), ({ operation }) => operation);
    const list = (names: readonly string[]) => [...new Set(names)].join(', ') || 'none';
    return new Error(
      `IdempotencyTestClock.runUntilIdle() ended after ${timeoutMs} ms of real time. Operations that still run: ${list(running)}; that duplicates wait for: ${list(waiting)}. End them in the test first, or move time over them: advance('1h').`,
    );
  }
}

function isEmpty(items: Iterable<unknown>): boolean {
  for (const _ of items) return false;
  return true;
}
