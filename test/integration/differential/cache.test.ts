import { describe, expect, it } from '@jest/globals';
import { isTestAll } from '../../support/test-all.js';
import { CACHE_MISTAKES, cached, checkCache } from './cache.js';

const runs = isTestAll ? 10_000 : 2_500;

describe('a store with the cache around it', () => {
  it('replies like the bare one, whatever comes in whatever order', async () => {
    const { replays, mismatches } = await checkCache(cached, runs);
    // A run has one in ten; seeds differ.
    expect(replays).toBeGreaterThan(runs / 20);
    expect(mismatches).toBeGreaterThan(runs / 200);
  });

  // All of the mistakes: mutants.all.test.ts.
  it('is seen to differ where it makes a mistake', async () => {
    const { wrap, objection } = CACHE_MISTAKES[0]!;
    await expect(checkCache(wrap, runs)).rejects.toThrow(objection);
  });
});
