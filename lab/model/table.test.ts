import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { findSpin } from '../../test/support/provision/spin.js';
import { RECORD_MISTAKES } from './checks.js';
import { Model } from './model.js';
import { stepsIn, type ModelRecord, type ModelStep } from './model-steps.js';
import { Replay } from './replay.js';

/** What the store may still have where the model has no record. */
const EXPIRED = [undefined, 'in_progress', 'completed', 'failed', 'released'] as const;

/** Differences that are meant, by the rows that have them. */
const NAMED: Readonly<Record<string, string>> = {
  'absent, expired: completed token=1 content=0 fence=3':
    "An expired record's fence outlives it, and a restored outcome gets the higher one. The model's records do not expire.",
};

interface Row {
  readonly name: string;
  readonly reply: string;
  readonly difference: string | undefined;
}

/** Each command on each record: of the model, and of the reference state machine. */
function rowsOf(table: readonly ModelStep[]): Row[] {
  return table.flatMap((step, at) => {
    if (step.name === 'given') return [];
    const given = table[at - 1]!;
    const variants = given.record.state === 'absent' ? EXPIRED : [undefined];
    return variants.map((expired) => {
      const code = new Replay();
      const unset = code.take(given);
      if (expired !== undefined) code.expire(expired);
      const args = Object.entries(step.args).map(([name, value]) => `${name}=${value}`);
      const where = `${textOf(given.record)}${expired === undefined ? '' : ', expired'}`;
      return {
        name: `${where}: ${[step.name, ...args].join(' ')}`,
        reply: `${step.name} ${step.reply}`,
        difference: unset ?? code.take(step),
      };
    });
  });
}

function textOf({ state, own, content, over, overdue }: ModelRecord): string {
  if (state === 'absent') return state;
  const lease = ['', ', lease over', ', deadline over'][over + overdue];
  return `${state}${lease} of ${own} with content ${content}`;
}

(findSpin() === undefined ? describe.skip : describe)(
  'Each command on each record of the model',
  () => {
    let model: Model;
    beforeAll(() => {
      model = new Model();
    });
    afterAll(() => model.remove());

    const differencesWith = (definitions: readonly string[]) =>
      rowsOf(stepsIn(model.table(definitions))).filter(
        ({ difference }) => difference !== undefined,
      );

    it('has the reply and leaves the record of the reference state machine', () => {
      const rows = rowsOf(stepsIn(model.table([])));
      const differing = rows.filter(({ difference }) => difference !== undefined);
      expect(differing.filter(({ name }) => NAMED[name] === undefined)).toEqual([]);
      expect([...new Set(differing.map(({ name }) => name))]).toEqual(Object.keys(NAMED));
      // Each of the 19 records and 4 expired ones, with 4 begins, 4 fences of the others, and 3 changes by an operator.
      expect(rows).toHaveLength((19 + 4) * (4 + 4 * 4 + 3 * 4));
      expect(new Set(rows.map(({ reply }) => reply)).size).toBe(38);
    });

    it.each(RECORD_MISTAKES)('differs with the planted mistake %s', (mistake) => {
      const differing = differencesWith([mistake]);
      expect(differing.filter(({ name }) => NAMED[name] === undefined)).not.toEqual([]);
    });
  },
);
