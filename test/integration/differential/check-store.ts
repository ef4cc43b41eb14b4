import { checkRandomly, type RandomRuns } from '../../support/jest/random-runs.js';
import { compare, type Subject } from './compare.js';
import { Coverage } from './coverage.js';
import { sequences } from './generate-sequence.js';
import type { Step } from './step.js';

/**
 * Compares a store with the reference over random sequences.
 *
 * @returns what occurred in the sequences, how many were checked, and how many calls they have.
 * @throws the shrunk first difference.
 */
export async function checkStore(
  subject: Subject,
  extent: Pick<RandomRuns<readonly Step[]>, 'runs' | 'seed'>,
): Promise<{ readonly coverage: Coverage; readonly checked: number; readonly calls: number }> {
  const coverage = new Coverage();
  let calls = 0;
  const checked = await checkRandomly({
    ...extent,
    values: sequences,
    atOnce: 200,
    check: (steps) => {
      calls += steps.flat().length;
      return compare(subject, steps, coverage.watch);
    },
  });
  return { coverage, checked, calls };
}
