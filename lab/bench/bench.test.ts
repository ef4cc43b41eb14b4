import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import {
  type Factors,
  interleave,
  type Measurement,
  orderOf,
  type Sample,
  spreadsOf,
  together,
} from './measuring/interleave.js';
import { median, pairedRatio, spreadOf } from './measuring/statistics.js';
import { BUDGET, budgetRows, judge } from './report/budget.js';
import { chartsOf } from './report/charts.js';
import { compareCounts } from './report/compare-counts.js';
import { measuredPages, pageWith } from './report/page.js';
import type { PartResult, Results } from './report/result.js';
import { loadResults, measurementsFolder } from './report/results-file.js';
import { tablesOf } from './report/tables.js';

const kept = loadResults();

describe('The pages of measurements', () => {
  const pages = new Map(measuredPages.map((page) => [page, readFileSync(page, 'utf8')]));
  const all = [...pages.values()].join('\n');

  it.each(measuredPages)('show what the runs have measured: %s', (page) => {
    expect(pages.get(page)).toBe(pageWith(kept, pages.get(page)!));
  });

  it('have a place for every table', () => {
    const places = [...all.matchAll(/<!-- figures: ([a-z-]+) -->/g)].map(([, name]) => name);
    for (const name of tablesOf(kept).keys()) expect(places).toContain(name);
  });

  it('show every chart as the runs drew it, and no other', () => {
    const charts = chartsOf(kept);
    const drawn = readdirSync(measurementsFolder).filter((name) => name.endsWith('.svg'));
    expect(drawn.sort()).toEqual([...charts.keys()].sort());
    for (const [name, chart] of charts) {
      expect(readFileSync(join(measurementsFolder, name), 'utf8')).toBe(chart);
      expect(all).toContain(`${name})`);
    }
  });

  it('contain no path and no address of the machine', () => {
    const names = readdirSync(measurementsFolder, { withFileTypes: true });
    for (const { name } of names.filter((entry) => entry.isFile())) {
      const text = readFileSync(join(measurementsFolder, name), 'utf8');
      expect(text).not.toMatch(/\/(tmp|home|root|work)\/|127\.0\.0\.1|localhost/);
    }
  });
});

describe('The budget', () => {
  const ROUNDS = 7;
  const OURS = 'nestjs-idempotency, Redis';
  const always = (value: number) => Array.from({ length: ROUNDS }, () => value);

  function resultOf(part: string, measurements: readonly Measurement[]): PartResult {
    return {
      ...{ part, command: 'npm run lab -- bench', date: '2026-01-02T03:04:05.678Z', seconds: 1 },
      machine: { processor: 'some', cores: 2, busyBefore: 0 },
      versions: {},
      rounds: { rounds: ROUNDS, roundMs: 1, warmUpMs: 1 },
      measurements,
    };
  }

  /** Each metric of an entrant is the same. */
  function measurement(
    factors: Factors,
    entrant: string,
    rounds: readonly (number | null)[],
  ): Measurement {
    const names = ['perSecond', 'cpuUs', 'redisUs', 'commands', 'bytes'];
    const metrics = Object.fromEntries(names.map((name) => [name, spreadOf(rounds)]));
    return { factors, entrant, metrics };
  }

  /** Ours is `ours`, all else 1, and the empty interceptor takes nothing. */
  function resultsWith(ours: readonly (number | null)[]): Results {
    const http = ['fastify', 'express'].flatMap((platform) =>
      ['first', 'replay'].flatMap((scenario) =>
        [64, 1].flatMap((connections) => {
          const factors = { platform, scenario, connections };
          return [
            measurement(factors, 'empty interceptor', always(0)),
            measurement(factors, 'SET NX GET + SET XX', always(1)),
            measurement(factors, '@node-idempotency/nestjs', always(1)),
            measurement(factors, OURS, ours),
          ];
        }),
      ),
    );
    const store = ['pair', 'replay'].flatMap((task) =>
      [200, 65_536].flatMap((bytes) => {
        const factors = { task, via: 'TCP', pipelining: 'on', bytes, inFlight: 32 };
        return [
          measurement(factors, 'nestjs-idempotency', ours),
          measurement(factors, 'SET NX GET + SET XX', always(1)),
          measurement(factors, 'the same in scripts', always(1)),
        ];
      }),
    );
    const sealing = [
      measurement({ bytes: 1_024 }, 'nestjs-idempotency', ours),
      measurement({ bytes: 1_024 }, 'createCipheriv + createDecipheriv', always(1)),
    ];
    const pair = { task: 'pair', via: 'TCP', pipelining: 'on', bytes: 200, inFlight: 32 };
    const clients = ['node-redis', 'GLIDE'].flatMap((client) => [
      measurement(pair, `by ${client}`, ours),
      measurement(pair, `${client} by hand`, always(1)),
    ]);
    const counts = [
      ...['first', 'replay', 'conflict', 'mismatch'].map((scenario) => ({ scenario })),
      { outcomeBytes: 'budget' },
    ].map((factors) => measurement(factors, OURS, ours));
    return new Map(
      Object.entries({ http, store, sealing, clients, counts }).map(([part, of]) => [
        part,
        resultOf(part, of),
      ]),
    );
  }

  function verdictsOn(what: string, ours: readonly (number | null)[]) {
    return judge(resultsWith(ours)).find(({ line }) => line.what === what)!;
  }

  it.each(BUDGET)('judges "$what" by must and aim', ({ what, limit, must, aim }) => {
    const worse = limit === 'at least' ? 0.999 : 1.001;
    expect(verdictsOn(what, always(must))).toMatchObject({ must: 'held' });
    expect(verdictsOn(what, always(must * worse))).toMatchObject({ must: 'missed' });
    if (limit === 'exactly') {
      expect(verdictsOn(what, always(must - 1))).toMatchObject({ must: 'missed' });
    }
    if (aim === undefined) {
      expect(verdictsOn(what, always(must)).aim).toBeUndefined();
      return;
    }
    expect(verdictsOn(what, always(aim))).toMatchObject({ must: 'held', aim: 'held' });
    expect(verdictsOn(what, always(aim * worse))).toMatchObject({ must: 'held', aim: 'missed' });
  });

  it('holds a line by the median ratio, whatever its interval', () => {
    const line = 'replay, requests/s ÷ best peer, Fastify';
    const held = verdictsOn(line, [0.2, 1, 0.5, 1, 0.4, 1, 1]);
    expect(held).toMatchObject({ must: 'held', aim: 'missed', measured: { estimate: 1 } });
    expect(held.measured.low).toBeLessThan(1);
    const missed = verdictsOn(line, [0.99, 2, 0.98, 2, 0.97, 2, 0.96]);
    expect(missed).toMatchObject({ must: 'missed', measured: { estimate: 0.99 } });
    expect(missed.measured.high).toBeGreaterThan(1);
  });

  it('compares with the best peer: the highest rate, the lowest cost', () => {
    const factors = { platform: 'fastify', scenario: 'replay', connections: 64 };
    const http = resultOf('http', [
      measurement(factors, OURS, always(9)),
      measurement(factors, '@node-idempotency/nestjs', always(8)),
      measurement(factors, '@aws-lambda-powertools/idempotency', [
        10,
        null,
        null,
        10,
        10,
        null,
        10,
      ]),
      measurement(factors, 'express-idempotency', always(5)),
    ]);
    expect(budgetRows(new Map([['http', http]]))).toEqual([
      {
        what: 'replay, requests/s ÷ best peer, Fastify',
        beside: '@aws-lambda-powertools/idempotency',
        measured: '0.90',
        '95 % interval': 'exact',
        must: 'at least 1: missed',
        aim: '1.15: missed',
      },
      {
        what: 'replay, CPU ÷ best peer, Fastify',
        beside: 'express-idempotency',
        measured: '1.80',
        '95 % interval': 'exact',
        must: 'at most 1: missed',
        aim: '0.9: missed',
      },
    ]);
  });

  it('compares what ours and by hand take above the empty interceptor, round by round', () => {
    const factors = { platform: 'fastify', scenario: 'first', connections: 1 };
    const http = resultOf('http', [
      measurement(factors, OURS, [72, 144, 72]),
      measurement(factors, 'SET NX GET + SET XX', [60, 120, 60]),
      measurement(factors, 'empty interceptor', [40, 80, 40]),
    ]);
    expect(judge(new Map([['http', http]]))).toMatchObject([
      { measured: { estimate: 1.6 }, must: 'held', aim: 'missed' },
    ]);
  });

  it('says nothing of what was not measured', () => {
    expect(judge(new Map())).toEqual([]);
  });
});

describe('The comparison of two commits', () => {
  const counted = (metrics: Record<string, number>, scenario = 'first') => ({
    ...{ factors: { platform: 'fastify', scenario }, entrant: 'nestjs-idempotency, Redis' },
    metrics: spreadsOf([metrics]),
  });

  it.each([
    ['as many commands', { commands: 2 }, { commands: 2 }, true],
    ['a command more', { commands: 2 }, { commands: 3 }, false],
    ['other commands than the budget, as before', { commands: 3 }, { commands: 3 }, false],
    ['a command now and then', { commands: 2 }, { commands: 2.05 }, false],
    ['a smaller record', { bytes: 488 }, { bytes: 472 }, true],
    ['a larger record', { bytes: 488 }, { bytes: 489 }, false],
    ['a hundredth more garbage', { allocated: 50_000 }, { allocated: 50_500 }, true],
    ['more garbage', { allocated: 50_000 }, { allocated: 50_501 }, false],
  ])('judges %s', (_of, base, head, isHeld) => {
    const [compared, ...others] = compareCounts([counted(base)], [counted(head)]);
    expect(others).toEqual([]);
    expect(compared).toMatchObject({ isHeld, row: { verdict: isHeld ? 'held' : 'missed' } });
  });

  it('judges by the budget alone what the base could not count', () => {
    const head = [counted({ commands: 1 }, 'replay'), counted({ allocated: 9 })];
    const compared = compareCounts([counted({ commands: 2 })], head);
    expect(compared.map(({ row }) => row)).toEqual([
      { what: 'commands, fastify, replay', base: '–', head: '1', verdict: 'held' },
      { what: 'bytes allocated, fastify, first', base: '–', head: '9', verdict: 'held' },
    ]);
    expect(compareCounts([], [counted({ commands: 2 }, 'replay')])[0]?.isHeld).toBe(false);
  });
});

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
