import { describe, expect, it } from '@jest/globals';
import { planOf } from './arguments.js';
import { allTolerated, expectationsOf } from './tolerances.js';
import { faults } from './faults/index.js';
import { NOTHING_TOLERATED, type Expectations } from '../faults/expectations.js';

describe('the plan of a chaos run', () => {
  it('distributes the requests among the keys', () => {
    expect(planOf(['--requests', '1000', '--keys', '10'])).toMatchObject({ duplicates: 100 });
  });

  it('takes the requirements of the faults, and the values of the arguments', () => {
    const needed = faults.get('pause')!.defaults!;
    expect(planOf(['--faults', 'lost-replies,pause'])).toMatchObject(needed);
    expect(planOf(['--faults', 'pause', '--lease-ms', '900'])).toMatchObject({
      ...needed,
      leaseMs: 900,
    });
  });

  it('requires each fault to be injected as often as its own or the common minimum says', () => {
    const faultsAnd = (...args: string[]) => planOf(['--faults', 'kill,cut,pause', ...args]);
    expect(faultsAnd().injections).toEqual([1, 1, 1]);
    expect(faultsAnd('--injections', '7').injections).toEqual([7, 7, 7]);
    expect(faultsAnd('--injections', '7,cut=9').injections).toEqual([7, 9, 7]);
  });

  it.each([
    [['--faults', 'kill', '--injections', 'cut=3'], '--injections must be one of kill, not cut'],
    [
      ['--faults', 'kill', '--injections', 'kill=0'],
      '--injections must be a whole number from 1, not 0',
    ],
    [
      ['--topology', 'postgres', '--faults', 'script-flush'],
      '--faults script-flush needs --topology single or sentinel or cluster, not postgres',
    ],
    [['--faults', 'failover'], '--faults failover needs --topology sentinel or cluster'],
    [['--faults', 'terminate'], '--faults terminate needs --topology postgres, not single'],
    [['--transactional'], '--transactional needs --topology postgres'],
    [['--faults', 'kill,eclipse'], '--faults must be one of'],
    [['--topology', 'ring'], '--topology must be one of'],
    [['--seed', 'x'], '--seed must be a whole number from 0, not x'],
    [['--on-save-failure', 'ignore'], '--on-save-failure must be one of error, respond'],
    [['--requests', '0'], '--requests must be a whole number from 1, not 0'],
    [['--unknown'], "Unknown option '--unknown'"],
  ])('rejects %j', (args, message) => {
    expect(() => planOf(args)).toThrow(message);
  });
});

describe('what is expected of transactions', () => {
  it('is one execution, one success and one response for each key, whatever the faults allow', () => {
    const plan = planOf([
      ...['--topology', 'postgres', '--transactional', '--on-save-failure', 'respond'],
      ...['--faults', 'kill,pause,cut,terminate,partition'],
    ]);
    const chosen = plan.faults.map((name) => faults.get(name)!);
    expect(expectationsOf(plan, chosen)).toMatchObject({
      extraExecutions: 'never',
      differentSuccesses: false,
      lostOutcomes: false,
      outages: false,
      brokenConnections: true,
    });
    expect(expectationsOf({ ...plan, transactional: false }, chosen)).toMatchObject({
      extraExecutions: 'reported to either',
      differentSuccesses: true,
      outages: true,
    });
  });
});

describe('what several faults allow', () => {
  const tolerated = (...tolerances: Partial<Expectations>[]) => allTolerated(tolerances);

  it('is nothing for none of them', () => {
    expect(tolerated()).toEqual(NOTHING_TOLERATED);
    expect(tolerated({}, {})).toEqual(NOTHING_TOLERATED);
  });

  it('is what any one of them allows', () => {
    const { otherResponses } = NOTHING_TOLERATED;
    expect(
      tolerated(
        { outages: true, otherResponses: ['503 a'], maxBlockedMs: 1_000 },
        { brokenConnections: true, otherResponses: ['503 a', '503 b'] },
        { maxBlockedMs: 3_000 },
      ),
    ).toEqual({
      ...NOTHING_TOLERATED,
      outages: true,
      brokenConnections: true,
      otherResponses: [...otherResponses, '503 a', '503 b'],
      maxBlockedMs: 3_000,
    });
  });

  it.each([
    ['reported to the second', 'reported to the second', 'reported to the second'],
    ['reported to the second', 'never', 'reported to the second'],
    ['never', 'reported to both', 'reported to both'],
    ['reported to the second', 'reported to both', 'reported to either'],
  ] as const)('of executions, %s and %s, is: %s', (one, other, both) => {
    const { extraExecutions } = tolerated({ extraExecutions: one }, { extraExecutions: other });
    expect(extraExecutions).toBe(both);
  });
});
