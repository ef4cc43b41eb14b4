import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../support/project-root.js';
import type { Steps } from './count-steps.js';

interface Counted {
  readonly readings: Readonly<Record<string, Steps>>;
  readonly mistakes: Readonly<Record<string, Steps>>;
}

/**
 * The ratio of the steps between 2n and 4n to those between n and 2n: 2 where they grow linearly, 4 where
 * quadratically. What does not grow may differ by a few.
 */
function growthOf([one, two, four]: Steps): number {
  return (four - two) / Math.max(two - one, 100);
}

/** Sorting and the tables of a Map take somewhat more than linear. */
const LINEAR = 2.5;

const notLinear = (counted: Readonly<Record<string, Steps>>) =>
  Object.entries(counted).filter(([, steps]) => growthOf(steps) > LINEAR);

describe('the steps to read foreign input', () => {
  let counted: Counted;

  beforeAll(async () => {
    // A process of its own: V8 counts the loops of what it compiles after counting was enabled.
    const loader = join(projectRoot, 'test/support/typescript/register.mjs');
    const main = join(import.meta.dirname, 'count-steps.ts');
    const { NODE_OPTIONS: _, ...env } = process.env;
    // V8 counts no calls of a function that its optimizing compiler has inlined.
    const args = ['--no-opt', '--import', loader, main];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env });
    counted = JSON.parse(stdout) as Counted;
  }, 120_000);

  it('grow linearly', () => {
    expect(Object.keys(counted.readings).length).toBeGreaterThan(30);
    expect(notLinear(counted.readings)).toEqual([]);
  });

  it('are more than linear in every planted mistake', () => {
    const found = notLinear(counted.mistakes).map(([mistake]) => mistake);
    expect(found).toEqual(Object.keys(counted.mistakes));
  });
});
