import { expect } from '@jest/globals';
import { DrivenClock } from '../internals/testing.js';

/** The clock of an engine that only the test moves. */
export class StandingClock extends DrivenClock {
  private steppedMs = 0;

  constructor() {
    super();
    this.stop();
  }

  override wallTime(): number {
    return super.wallTime() + this.steppedMs;
  }

  get timerCount(): number {
    return this.timers.size;
  }

  /** Time goes by, and timers are called when it is moved again: as when the event loop is blocked. */
  block(ms: number): void {
    this.moveBy(ms);
  }

  /** Sets the wall clock, forwards or backwards. */
  stepWallTime(ms: number): void {
    this.steppedMs += ms;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.setTimeout(resolve, ms, undefined));
  }
}

/** Longer than any lease, deadline or pause of a test on a driven clock. */
const LONG_MS = 600_000;

/** A shared timer may wake up once more for nothing; code that still waits would set another one. */
export async function expectNoTimerRenewed(clock: StandingClock): Promise<void> {
  await clock.advance(LONG_MS);
  expect(clock.timerCount).toBe(0);
}
