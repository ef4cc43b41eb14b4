import { afterEach, expect, it } from '@jest/globals';
import { checkRandomly, listsFromSeed } from '../support/jest/random-runs.js';

// 1, 2 … 100 in an order that the seed determines.
const values = listsFromSeed((seed) =>
  Array.from({ length: 100 }, (_, index) => ((index * 37 + seed) % 101) + 1),
);
/** Every list in which 40 comes before 10 is wrong. */
const check = async (lists: readonly (readonly number[])[]) =>
  lists.map((list) =>
    list.includes(40) && list.lastIndexOf(10) > list.indexOf(40) ? `[${list.join()}]` : undefined,
  );

afterEach(() => {
  delete process.env.RANDOM_SEED;
  delete process.env.RANDOM_PATH;
});

async function failure(): Promise<string> {
  const checked = checkRandomly({ values, runs: 200, atOnce: 20, check });
  return checked.then(
    () => 'none',
    (error: unknown) => (error as Error).message,
  );
}

it('a random failure is shrunk, and recurs with the printed seed and path', async () => {
  const found = await failure();
  const [, seed, path, list] = /RANDOM_SEED=(\d+) RANDOM_PATH=(\S+)\n(.*)$/.exec(found) ?? [];
  expect(list).toBe('[40,10]');
  process.env.RANDOM_SEED = seed;
  process.env.RANDOM_PATH = path;
  expect(await failure()).toContain('[40,10]');
});

it('as many random values are checked as requested', async () => {
  let checked = 0;
  const count = async (lists: readonly unknown[]) => lists.map(() => void (checked += 1));
  expect(await checkRandomly({ values, runs: 60, atOnce: 20, check: count })).toBe(60);
  expect(checked).toBe(60);
});
