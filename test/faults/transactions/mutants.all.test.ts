import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { MUTANTS, type MutantName } from '../../../lab/faults/worker/mutants.js';
import { TransactionalLab } from './support/transactional-lab.js';

/** The accident of the mutant's attempt at a key, before or while another worker is asked for it. */
type Accident = (mutant: LabWorker, key: string) => Promise<unknown>;

const crashBeforeCommit: Accident = (mutant, key) =>
  lab.send(mutant, key, { point: 'before_commit', action: { kind: 'crash' } });
const cutBeforeCommit: Accident = (mutant, key) =>
  lab.send(mutant, key, { point: 'before_commit', action: { kind: 'cut' } });
const takenOver: Accident = (mutant, key) =>
  lab.pauseBeforeTransaction(mutant, key, async () => {
    await lab.endLease(key);
    await lab.ask(survivor, key);
  });

const MISTAKES: [MutantName, Accident][] = [
  ['outcome-stored-outside-of-the-transaction', crashBeforeCommit],
  ['effect-written-outside-of-the-transaction', crashBeforeCommit],
  ['owner-of-the-record-not-compared', takenOver],
  ['commit-without-an-answer-counts-as-done', cutBeforeCommit],
];

let lab: TransactionalLab;
let survivor: LabWorker;
let objections: readonly string[];

beforeAll(async () => {
  lab = await TransactionalLab.set();
  survivor = await lab.start();
  await Promise.all(
    MISTAKES.map(async ([name, accident]) => {
      await accident(await lab.start({ mutant: name }), name);
      await lab.endLease(name);
      await lab.ask(survivor, name);
    }),
  );
  ({ objections } = await lab.judge());
}, 120_000);
afterAll(() => lab.clear());

// The tests beside this one check that it has no objection to the library as it is, after the same accidents.
describe('The oracle objects to a transactional worker with the mistake [P13]', () => {
  it.each(MISTAKES)('%s', (name) => {
    const about = objections.filter((text) => text.includes(name));
    expect(about).toContainEqual(expect.stringMatching(MUTANTS[name].objection));
  });
});
