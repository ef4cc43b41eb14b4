import { randomInt } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { simulate, untried } from './simulate.js';

it('comes to no objection in 300,000 requests with 15,000 crashes', async () => {
  const seed = randomInt(2 ** 31);
  const { summary, failure } = await simulate(seed, 300_000);
  const { objections } = failure ?? { objections: [] };
  const again = `npm run lab -- simulate --requests 300000 --seed ${seed}`;
  expect({ again, objections, untried: untried(summary) }).toEqual({
    again,
    objections: [],
    untried: [],
  });
}, 900_000);
