import { describe, expect, it } from '@jest/globals';
import { jitteredPause } from '../../../support/internals/core.js';
import { StandingClock } from '../../../support/clocks/standing-clock.js';

describe('a jittered pause', () => {
  it('takes between half of its time and all of it, at random', async () => {
    const clock = new StandingClock();
    const startedAt = clock.now();
    const lengths: number[] = [];
    const pauses = Array.from({ length: 200 }, () =>
      jitteredPause(1_000, clock).then(() => lengths.push(clock.now() - startedAt)),
    );
    await clock.advance(499);
    expect(lengths).toEqual([]);
    await clock.advance(501);
    await Promise.all(pauses);
    const inThirds = lengths.map((length) => Math.min(2, Math.floor((length - 500) / 167)));
    expect(new Set(inThirds)).toEqual(new Set([0, 1, 2]));
  });
});
