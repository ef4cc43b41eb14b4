import { expect, it, jest } from '@jest/globals';
import { deleteInBatches } from '../../support/internals/postgres.js';

/** Milliseconds between the end of a batch, which took so long, and the beginning of the next one. */
async function pauseAfter(batchMs: number, pause: number): Promise<number> {
  jest.useFakeTimers();
  try {
    const beginnings: number[] = [];
    const deleteBatch = async () => {
      beginnings.push(performance.now());
      await jest.advanceTimersByTimeAsync(batchMs);
      return { deleted: 1, isLast: beginnings.length === 2, reached: undefined };
    };
    const deletion = deleteInBatches({ pause }, 0, deleteBatch, () => undefined);
    await jest.runAllTimersAsync();
    await deletion;
    return beginnings[1]! - beginnings[0]! - batchMs;
  } finally {
    jest.useRealTimers();
  }
}

it.each([
  ['the pause, after a short batch', 3, 20, 20],
  ['twice as long as the batch took, on a slow server', 50, 20, 100],
  ['none, where there is to be none', 50, 0, 0],
])('a deletion leaves the server %s', async (_, batchMs, pause, pauseMs) => {
  expect(await pauseAfter(batchMs, pause)).toBe(pauseMs);
});
