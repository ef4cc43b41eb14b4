import { expect } from '@jest/globals';
import type { StandingClock } from './standing-clock.js';

/** Longer than any lease, deadline or pause of a test on a driven clock. */
const LONG_MS = 600_000;

/** A shared timer may wake up once more for nothing; code that still waits would set another one. */
export async function expectNoTimerRenewed(clock: StandingClock): Promise<void> {
  await clock.advance(LONG_MS);
  expect(clock.timerCount).toBe(0);
}
