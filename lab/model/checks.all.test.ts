import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { findSpin } from '../../test/support/provision/spin.js';
import { CHECKS, type Check } from './checks.js';
import { statesCountedBy } from './figures.js';
import { lineOf, Model } from './model.js';
import { stepsIn } from './model-steps.js';
import { replay } from './replay.js';

const checks = CHECKS.filter(({ isLong = false }) => !isLong);
const ofExpected = (expected: Check['expected']) =>
  checks.filter((check) => check.expected === expected);

const lines: string[] = [];
afterAll(() => {
  process.stdout.write(`${lines.join('\n')}\n`);
});

(findSpin() === undefined ? describe.skip : describe)('The model of the protocol', () => {
  let model: Model;
  beforeEach(() => {
    model = new Model();
  });
  afterEach(() => model.remove());

  function verify(check: Check) {
    const verdict = model.verify(check);
    lines.push(lineOf(check, verdict));
    return verdict;
  }

  it.each(ofExpected('no error'))(
    'has no error, and the states of docs/explanation/protocol.md: $name',
    (check) => {
      const verdict = verify(check);
      const { states } = verdict;
      const counted = statesCountedBy(model.version);
      if (counted.size === 0) lines.push(`spin ${model.version} has no figures to compare with.`);
      const expected = counted.size === 0 ? states : counted.get(check.name);
      expect(verdict).toMatchObject({ found: 'no error', states: expected });
    },
    600_000,
  );

  // What a mistake of the record leads to, the code does not do. Mistakes of a worker are none of the record's.
  it.each(ofExpected('a counterexample'))(
    'has a counterexample: $name',
    (check) => {
      expect(verify(check)).toMatchObject({ found: 'a counterexample' });
      const steps = stepsIn(model.counterexample(check));
      expect(steps).not.toEqual([]);
      if (check.file === 'transaction.pml') return;
      expect(replay(steps).difference !== undefined).toBe(check.isOfRecord);
    },
    600_000,
  );
});
