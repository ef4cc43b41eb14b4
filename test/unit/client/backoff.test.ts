import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { fullJitterMs } from '../../support/internals/client.js';

const backoff = fc.record({
  backoffBaseMs: fc.integer({ min: 1, max: 10_000 }),
  backoffCapMs: fc.integer({ min: 1, max: 100_000 }),
});
const tries = fc.integer({ min: 1, max: 5_000 });
const drawn = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the pause between attempts', () => {
  it('is between zero and the step, which doubles up to the cap', () => {
    fc.assert(
      fc.property(backoff, tries, drawn, (settings, count, random) => {
        const pause = fullJitterMs(count, { ...settings, random: () => random });
        const { backoffBaseMs, backoffCapMs } = settings;
        const step = Math.min(backoffCapMs, backoffBaseMs * 2 ** Math.min(count - 1, 60));
        expect(pause).toBeGreaterThanOrEqual(0);
        expect(pause).toBeLessThan(step);
        expect(pause).toBeCloseTo(random * step, 6);
      }),
    );
  });

  it('is spread over the whole step', () => {
    const settings = { backoffBaseMs: 100, backoffCapMs: 10_000, random: Math.random };
    const tenths = new Set<number>();
    for (let draw = 0; draw < 2_000; draw += 1) {
      tenths.add(Math.floor(fullJitterMs(3, settings) / 40));
    }
    expect([...tenths].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});
