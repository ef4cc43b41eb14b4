import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import {
  spreadsOf,
  type Factors,
  type Measurement,
} from '../../../lab/bench/measuring/interleave.js';
import { spreadOf } from '../../../lab/bench/measuring/statistics.js';
import { BUDGET, budgetRows, judge } from '../../../lab/bench/report/budget.js';
import { chartsOf } from '../../../lab/bench/report/charts.js';
import { compareCounts } from '../../../lab/bench/report/compare-counts.js';
import { measuredPages, pageWith } from '../../../lab/bench/report/page.js';
import type { PartResult, Results } from '../../../lab/bench/report/result.js';
import { loadResults, measurementsFolder } from '../../../lab/bench/report/results-file.js';
import { tablesOf } from '../../../lab/bench/report/tables.js';

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
    const counts = [
      ...['first', 'replay', 'conflict', 'mismatch'].map((scenario) => ({ scenario })),
      { outcomeBytes: 'budget' },
    ].map((factors) => measurement(factors, OURS, ours));
    return new Map(
      Object.entries({ http, store, counts }).map(([part, of]) => [part, resultOf(part, of)]),
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
