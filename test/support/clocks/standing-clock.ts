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
