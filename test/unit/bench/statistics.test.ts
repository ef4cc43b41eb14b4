import { describe, expect, it } from '@jest/globals';
import {
  interleave,
  orderOf,
  together,
  type Sample,
} from '../../../lab/bench/measuring/interleave.js';
import { median, pairedRatio, spreadOf } from '../../../lab/bench/measuring/statistics.js';

describe('The statistics of the benchmark', () => {
  it('take the middle, or the mean of the two in the middle', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([9, 1, 5, 7])).toBe(6);
  });

  it('compare within rounds: a machine that slows both down changes nothing', () => {
    const { estimate, low, high } = pairedRatio([50, 100, 200, 10], [100, 200, 400, 20]);
    expect([estimate, low, high].map((value) => value.toFixed(9))).toEqual(
      Array(3).fill('0.500000000'),
    );
  });

  it('have an interval as wide as the rounds below six of them, and none after one', () => {
    const five = pairedRatio([1, 1.1, 1.2, 1.3, 1.4], [1, 1, 1, 1, 1]);
    expect([five.low, five.high]).toEqual([expect.closeTo(1), expect.closeTo(1.4)]);
    expect(pairedRatio([2], [1])).toEqual({ estimate: 2, low: 0, high: Infinity });
  });

  it('leave out the rounds that one of the two sat out', () => {
    expect(pairedRatio([1, null, 3, 8], [2, 5, null, 4])).toMatchObject({ estimate: 1.25 });
    expect(spreadOf([3, null, 1])).toEqual({ median: 2, min: 1, max: 3, rounds: [3, null, 1] });
  });

  it('take less than nothing for the least there is, and what is beside it for a multiple', () => {
    const { estimate, low } = pairedRatio([-1, 2, 2], [1, 1, 1]);
    expect([estimate, low]).toEqual([2, expect.closeTo(0)]);
    expect(pairedRatio([2, 2, 2], [-1, -1, 1]).estimate).toBe(Infinity);
  });

  it('have the interval of Wilcoxon: ranks 9 and 47 of 55 averages of ten rounds', () => {
    // Hollander and Wolfe, table A.4: P(T+ <= 8) = 0.024 for ten differences.
    const logs = [0.1, 0.25, 0.37, 0.46, 0.58, 0.61, 0.77, 0.83, 0.94, 1.09];
    const averages = logs
      .flatMap((one, i) => logs.slice(i).map((other) => (one + other) / 2))
      .sort((one, other) => one - other);
    const { low, high } = pairedRatio(logs.map(Math.exp), Array<number>(10).fill(1));
    expect(Math.log(low)).toBeCloseTo(averages[8]!, 9);
    expect(Math.log(high)).toBeCloseTo(averages[46]!, 9);
  });

  it('are robust against one disturbed round', () => {
    const calm = [1.01, 0.99, 1.02, 0.98, 1, 1.01, 0.99];
    const { estimate, low, high } = pairedRatio([...calm, 25], Array<number>(8).fill(1));
    expect(estimate).toBeCloseTo(1, 1);
    expect(low).toBeGreaterThan(0.9);
    expect(high).toBeLessThan(6);
  });
});

describe('The benchmark’s rounds', () => {
  it('let every entrant come first equally often', () => {
    const first = Array.from({ length: 12 }, (_, round) => orderOf(3, round)[0]);
    expect([0, 1, 2].map((one) => first.filter((other) => other === one).length)).toEqual([
      4, 4, 4,
    ]);
  });

  it('run all entrants of all groups, and do not count the first round', async () => {
    const rounds: string[] = [];
    const entrant = (name: string) => ({
      name,
      run: async (ms: number): Promise<Sample> => ({ round: rounds.push(`${name} ${ms}`) }),
    });
    const groups = [
      { factors: { of: 'letters' }, entrants: [entrant('a'), entrant('b')] },
      { factors: { of: 'digits' }, entrants: [entrant('1')] },
    ];
    const measured = await interleave(groups, { rounds: 2, roundMs: 5, warmUpMs: 9 });
    expect(rounds).toEqual(['a 9', 'b 9', '1 9', '1 5', 'b 5', 'a 5', '1 5', 'b 5', 'a 5']);
    expect(measured).toHaveLength(3);
    expect(measured[1]).toEqual({
      factors: { of: 'letters' },
      entrant: 'b',
      metrics: { round: { median: 6.5, min: 5, max: 8, rounds: [5, 8] } },
    });
  });

  it('let an entrant sit out all rounds but some, and settle it in another way', async () => {
    const calls: string[] = [];
    const run = (kind: string) => async (ms: number) => ({ at: calls.push(`${kind} ${ms}`) });
    const entrants = [
      { name: 'each', run: run('each'), settle: run('settles') },
      { name: 'second', run: run('second'), every: 2 },
    ];
    const measured = await interleave([{ factors: {}, entrants }], {
      ...{ rounds: 3, roundMs: 5, warmUpMs: 9, settleMs: 1 },
    });
    expect(measured.map(({ metrics }) => metrics.at?.rounds.map((at) => at !== null))).toEqual([
      [true, true, true],
      [false, true, false],
    ]);
    expect(calls.filter((call) => call.startsWith('second'))).toEqual([
      ...['second 9', 'second 1', 'second 5'],
    ]);
    expect(calls.filter((call) => call === 'settles 1')).toHaveLength(3);
  });

  it('are combined with those of another start, regardless of the order there', () => {
    const run = (entrants: Record<string, number[]>) =>
      Object.entries(entrants).map(([entrant, rounds]) => ({
        factors: { task: 'pair' },
        entrant,
        metrics: { perSecond: { median: 0, min: 0, max: 0, rounds } },
      }));
    const both = together([run({ base: [1, 2], head: [3, 4] }), run({ head: [7], base: [5] })]);
    expect(both.map(({ entrant, metrics }) => [entrant, metrics.perSecond!.rounds])).toEqual([
      ['base', [1, 2, 5]],
      ['head', [3, 4, 7]],
    ]);
    expect(both[0]!.metrics.perSecond).toMatchObject({ median: 2, min: 1, max: 5 });
  });
});
