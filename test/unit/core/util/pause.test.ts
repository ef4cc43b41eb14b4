import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { jitteredPause, nodeClock } from '../../../support/internals/core/util.js';

describe('a jittered pause', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('takes between half of its time and all of it, at random', async () => {
    const startedAt = performance.now();
    const lengths: number[] = [];
    const pauses = Array.from({ length: 200 }, () =>
      jitteredPause(1_000, nodeClock).then(() => lengths.push(performance.now() - startedAt)),
    );
    await jest.advanceTimersByTimeAsync(499);
    expect(lengths).toEqual([]);
    await jest.advanceTimersByTimeAsync(501);
    await Promise.all(pauses);
    const inThirds = lengths.map((length) => Math.min(2, Math.floor((length - 500) / 167)));
    expect(new Set(inThirds)).toEqual(new Set([0, 1, 2]));
  });
});
