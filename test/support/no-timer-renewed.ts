import { expect, jest } from '@jest/globals';

/** Longer than any lease, deadline or pause of a test on a driven clock. */
const LONG_MS = 600_000;

/** A timer that many share may wake up once more for nothing; whoever still waits for something would set another one. */
export async function expectNoTimerRenewed(): Promise<void> {
  await jest.advanceTimersByTimeAsync(LONG_MS);
  expect(jest.getTimerCount()).toBe(0);
}
