import { jest } from '@jest/globals';
import { canFakeServerClock, ServerClock } from '../../../support/server-clock/server-clock.js';
import { driveTimers } from '../../../support/standing-time.js';

/**
 * Time that passes when a test says so: for the servers that are started with its {@link env}, and for the engines of this
 * process. In between, this process goes on by small steps, one for each turn that it gets: never faster than real time,
 * and slower on a busy machine. So no lease and no budget ends because somebody was slow.
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

  /** As if everybody had stood still for so long. */
  async pass(ms: number): Promise<void> {
    this.clock?.pass(ms);
    jest.advanceTimersByTime(ms);
    // A timer may leave it to the next turn to judge.
    for (let turn = 0; turn < 2; turn += 1) await new Promise(setImmediate);
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
