import { expect, jest } from '@jest/globals';

/** Longer than any lease, deadline or pause of a test on a driven clock. */
const LONG_MS = 600_000;

/** A shared timer may wake up once more for nothing; code that still waits would set another one. */
export async function expectNoTimerRenewed(): Promise<void> {
  await jest.advanceTimersByTimeAsync(LONG_MS);
  expect(jest.getTimerCount()).toBe(0);
}
