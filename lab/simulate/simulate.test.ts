import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { runEpisode } from './episode.js';
import { planOf, type Plan } from './plan.js';
import { simulate, untried } from './simulate.js';

/** Episodes that once came to an objection, shrunk, and what it was. */
const regressions = JSON.parse(
  readFileSync(join(import.meta.dirname, 'regressions.json'), 'utf8'),
) as { found: string; plan: Plan }[];

describe('the engine in virtual time', () => {
  it('comes to no objection in 5,000 requests with 250 crashes, or a few more until everything is tried', async () => {
    const seed = randomInt(2 ** 31);
    const { summary, failure } = await simulate(seed, 5_000, 60_000);
    const { objections } = failure ?? { objections: [] };
    const again = `npm run lab -- simulate --seed ${seed}`;
    expect({ again, objections, untried: untried(summary.counts, 5_000) }).toEqual({
      again,
      objections: [],
      untried: [],
    });
  }, 120_000);

  it('has the same history for the same plan, and another one for another seed', async () => {
    const histories = [];
    for (const seed of [1, 1, 2]) histories.push((await runEpisode(planOf(seed))).digest);
    expect(histories[0]).toBe(histories[1]);
    expect(histories[0]).not.toBe(histories[2]);
  });

  it('comes to no objection where it once did', async () => {
    for (const { found, plan } of regressions) {
      const { objections } = await runEpisode(plan);
      expect({ found, objections }).toEqual({ found, objections: [] });
    }
  });
});
