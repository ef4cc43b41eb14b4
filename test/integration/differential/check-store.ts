import { checkRandomly, type RandomRuns } from '../../support/jest/random-runs.js';
import { compare, type Subject } from './compare.js';
import { Coverage } from './coverage.js';
import { sequences } from './generate-sequence.js';
import type { Step } from './step.js';

/**
 * Compares a store with the reference over random sequences.
 *
 * @returns what occurred in the sequences, and how many were checked.
 * @throws the shrunk first difference.
 */
export async function checkStore(
  subject: Subject,
  extent: Pick<RandomRuns<readonly Step[]>, 'runs' | 'seed'>,
): Promise<{ readonly coverage: Coverage; readonly checked: number }> {
  const coverage = new Coverage();
  const checked = await checkRandomly({
    ...extent,
    values: sequences,
    atOnce: 200,
    check: (steps) => compare(subject, steps, coverage.watch),
  });
  return { coverage, checked };
}
