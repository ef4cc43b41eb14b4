import { jest } from '@jest/globals';
import { canFakeServerClock, ServerClock } from '../../../support/clocks/server-clock.js';
import { driveTimers } from '../../../support/clocks/standing-time.js';

/**
 * Time that the test drives: for the servers started with its {@link env}, and for the engines of this
 * process. In between, the time of this process advances by small steps, one per iteration of the event loop:
 * never faster than real time, and slower on a busy machine. So no lease and no deadline ends because a
 * machine was slow.
 */
export class DrivenTime {
  private readonly clock = canFakeServerClock ? new ServerClock() : undefined;

  get env(): Readonly<Record<string, string>> {
    return this.clock?.env ?? {};
  }

  /** Before each test. */
  start(): void {
    driveTimers(true);
  }

  /** As if all processes had been paused for this long. */
  async pass(ms: number): Promise<void> {
    this.clock?.pass(ms);
    jest.advanceTimersByTime(ms);
    // A timer may leave the check to the next iteration.
    for (let round = 0; round < 2; round += 1) await new Promise(setImmediate);
  }

  /** After each test. */
  stop(): void {
    jest.useRealTimers();
  }

  /** After the servers have stopped. */
  remove(): void {
    this.clock?.remove();
  }
}
