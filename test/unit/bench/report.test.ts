import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { planOf } from '../../lab/bench/arguments.js';
import { spreadOf } from '../../lab/bench/measuring/statistics.js';
import { parts } from '../../lab/bench/parts/parts.js';
import { barChart } from '../../lab/bench/report/bar-chart.js';
import { budgetRows } from '../../lab/bench/report/budget.js';
import { chartsOf } from '../../lab/bench/report/charts.js';
import { lineChart } from '../../lab/bench/report/line-chart.js';
import { pageWith, performancePage } from '../../lab/bench/report/page.js';
import type { PartResult } from '../../lab/bench/report/result.js';
import { assetsFolder, loadResults } from '../../lab/bench/report/results-file.js';
import { tablesOf } from '../../lab/bench/report/tables.js';

const kept = loadResults();

describe('The performance page', () => {
  const page = readFileSync(performancePage, 'utf8');

  it('shows the measurements of the runs', () => {
    expect(pageWith(kept, page)).toBe(page);
  });

  it('has a place for every table', () => {
    const places = [...page.matchAll(/<!-- figures: ([a-z-]+) -->/g)].map(([, name]) => name);
    for (const name of tablesOf(kept).keys()) expect(places).toContain(name);
  });

  it('shows every chart as the runs drew it', () => {
    for (const [name, chart] of chartsOf(kept)) {
      expect(readFileSync(join(assetsFolder, name), 'utf8')).toBe(chart);
      expect(page).toContain(`assets/performance/${name}`);
    }
  });

  it('contains no path and no address of the machine', () => {
    for (const name of kept.keys()) {
      const text = readFileSync(join(assetsFolder, `${name}.json`), 'utf8');
      expect(text).not.toMatch(/\/(tmp|home|root|work)\/|127\.0\.0\.1|localhost/);
    }
    expect(existsSync(performancePage)).toBe(true);
  });
});

describe('The budget', () => {
  const always = (rate: number) => Array.from({ length: 6 }, () => rate);

  it.each([
    { ours: always(9), raw: always(10), verdict: 'aim met' },
    { ours: always(8), raw: always(10), verdict: 'must met' },
    { ours: always(7), raw: always(10), verdict: 'missed' },
    { ours: always(7), raw: always(10), scripts: always(8), verdict: 'missed' },
    { ours: always(6), raw: always(10), scripts: always(7), verdict: 'missed, by hand too' },
    { ours: always(6), raw: always(10), scripts: [7, 7, 8, 7, 7, 9], verdict: 'missed' },
    { ours: always(7), raw: always(10), scripts: always(6), verdict: 'missed' },
    { ours: always(8), raw: always(10), scripts: always(7), verdict: 'must met' },
    { ours: [9, 9, 9, 6, 9, 9], raw: [9, 10, 14, 10, 10, 10], verdict: 'must met, not certain' },
  ])(
    'says "$verdict" of $ours beside $raw, by hand $scripts',
    ({ ours, raw, scripts, verdict }) => {
      const factors = { task: 'pair', via: 'TCP', pipelining: 'on', bytes: 200, inFlight: 32 };
      const measurement = (entrant: string, rates: number[]) => ({
        factors,
        entrant,
        metrics: { perSecond: spreadOf(rates) },
      });
      const store: PartResult = {
        part: 'store',
        command: 'npm run lab -- bench',
        date: '2026-01-02T03:04:05.678Z',
        seconds: 1,
        machine: { processor: 'some', cores: 2, busyBefore: 0 },
        versions: {},
        rounds: { rounds: 6, roundMs: 1, warmUpMs: 1 },
        measurements: [
          measurement('nestjs-idempotency', ours),
          measurement('SET NX GET + SET XX', raw),
          ...(scripts === undefined ? [] : [measurement('the same in scripts', scripts)]),
        ],
      };
      const rows = budgetRows(new Map([['store', store]]));
      expect(rows).toHaveLength(1);
      expect(rows[0]).toMatchObject({ must: 'at least 0.75', aim: 0.85, verdict });
      const byHand = scripts === undefined ? /^–$/ : /^0\.\d\d \(0\.\d\d to 0\.\d\d\)$/;
      expect(rows[0]?.['by hand']).toMatch(byHand);
    },
  );
});

describe('The charts', () => {
  it('draw a bar as long as its value, and its range', () => {
    const bar = (name: string, value: number) => ({ name, value, min: value, max: value * 1.25 });
    const chart = barChart('a < b', [
      {
        name: 'group',
        bars: [
          { ...bar('one', 80), isOwn: true },
          { ...bar('two', 40), isOwn: false },
        ],
      },
    ]);
    expect(chart).toContain('<title>a &lt; b</title>');
    const [own, other] = [...chart.matchAll(/<rect [^>]*width="(\d+)"/g)].map(([, w]) => Number(w));
    expect(own).toBe(336);
    expect(other).toBe(168);
    expect(chart).toMatch(/prefers-color-scheme: dark/);
  });

  it('draw a curve through its points, upwards from zero', () => {
    const point = (x: number, y: number) => ({ x, y, min: y, max: y });
    const chart = lineChart('growth', { x: 'records', y: 'a second', isLogarithmic: true }, [
      { name: 'one', points: [point(10, 100), point(100, 50), point(1000, 0)] },
    ]);
    expect(chart).toContain('d="M80 60L400 165L720 270"');
  });
});

describe('The benchmark’s command line', () => {
  it('runs all parts that are not optional and writes the results', () => {
    const plan = planOf([], parts);
    expect(plan).toMatchObject({ profile: 'default', isKept: true, library: undefined });
    expect(plan.parts.map(({ name }) => name)).not.toContain('nodes');
    expect(planOf(['--full'], parts).parts).toHaveLength(parts.length);
  });

  it('runs the parts that are named, and writes nothing after a quick run', () => {
    const plan = planOf(['--quick', '--only', 'http,size'], parts);
    expect(plan.parts.map(({ name }) => name)).toEqual(['http', 'size']);
    expect(plan.isKept).toBe(false);
    expect(planOf(['--quick', '--report'], parts).isKept).toBe(true);
    expect(planOf(['--no-report'], parts).isKept).toBe(false);
  });

  it.each([
    [['--only', 'htp'], 'unknown part "htp"'],
    [['--quick', '--full'], 'exclude each other'],
  ])('rejects %s', (args, message) => {
    expect(() => planOf(args, parts)).toThrow(message);
  });
});
