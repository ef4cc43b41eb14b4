import { randomInt } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { simulate, untried } from './simulate.js';

it('comes to no objection in 300,000 requests with 15,000 crashes, or a few more until everything is tried', async () => {
  const seed = randomInt(2 ** 31);
  const { summary, failure } = await simulate(seed, 300_000, 330_000);
  const { objections } = failure ?? { objections: [] };
  const again = `npm run lab -- simulate --requests 300000 --seed ${seed}`;
  expect({ again, objections, untried: untried(summary.counts, 300_000) }).toEqual({
    again,
    objections: [],
    untried: [],
  });
}, 900_000);
