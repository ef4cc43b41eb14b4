import { parseArgs } from 'node:util';
import type { Row } from '../../support/figures/report.js';
import { ensureInstalled } from './install.js';
import { buildCommit, buildLibrary, type BuiltLibrary } from './library/build-library.js';
import { isSame, together, type Measurement, type Rounds } from './measuring/interleave.js';
import { pairedRatio } from './measuring/statistics.js';
import { measureHttp } from './parts/http.js';
import { conditions, measureStore } from './parts/store.js';
import { Progress } from './progress.js';
import { inDigits, intervalOf } from './report/budget.js';

const USAGE = `npm run lab -- bench check --base REV [--head REV] [--only store|http] [--starts N] [--rounds N] [--quick]

  --base    the commit to compare with
  --head    the commit to judge; without it, what lies in the checkout
  --starts  how often the processes are started anew (default 4)
  --rounds  how often each has its turns after each start (default 4)
  --quick   short turns, to see that it works`;

/** Base first: the other one is measured against it. */
const NAMES = ['base', 'head'] as const;

const STORE_CONDITIONS = [
  ...conditions('pair', 'TCP', 'on', 200, [32]),
  ...conditions('pair', 'TCP', 'off', 200, [1]),
  ...conditions('pair', 'TCP', 'on', 4_096, [32]),
  ...conditions('replay', 'TCP', 'on', 200, [32]),
  ...conditions('replay', 'TCP', 'off', 200, [1]),
];

const HTTP_SCENARIOS = [
  { scenario: 'first', connections: 64 },
  { scenario: 'replay', connections: 64 },
] as const;

const { values } = parseArgs({
  options: {
    base: { type: 'string' },
    head: { type: 'string' },
    only: { type: 'string' },
    starts: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '4' },
    quick: { type: 'boolean', default: false },
  },
});
const { base, head, only } = values;
if (base === undefined) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  await compare(base, head);
}

async function compare(baseRevision: string, headRevision: string | undefined): Promise<void> {
  await ensureInstalled(import.meta.dirname);
  const built: BuiltLibrary[] = [];
  try {
    built.push(await buildCommit(baseRevision));
    built.push(await (headRevision === undefined ? buildLibrary() : buildCommit(headRevision)));
    const [one, two] = built.map(({ folder }) => folder);
    const measurements = await measureBoth(one!, two!);
    console.table(rowsOf(measurements));
  } finally {
    for (const library of built) library.remove();
  }
}

/**
 * Two processes of the same code may differ for as long as they live, by what was compiled when and where it lies. So
 * both are started anew several times, each of them first as often as the other.
 */
async function measureBoth(one: string, two: string): Promise<Measurement[]> {
  const libraries = { base: one, head: two };
  const rounds: Rounds = {
    rounds: Number(values.rounds),
    turnMs: values.quick ? 250 : 1_000,
    warmUpMs: values.quick ? 500 : 3_000,
    settleMs: 200,
  };
  const starts: Measurement[][] = [];
  for (let start = 1; start <= Number(values.starts); start += 1) {
    const progress = new Progress(`start ${start} of ${values.starts}`);
    const context = { onProgress: (text: string) => progress.show(text) };
    const names = start % 2 === 1 ? NAMES : [...NAMES].reverse();
    const found: Measurement[] = [];
    if (only !== 'http') {
      const entrants = Object.fromEntries(
        names.map((name) => [name, { kind: 'store', library: libraries[name] } as const]),
      );
      found.push(...(await measureStore(context, rounds, STORE_CONDITIONS, entrants)).measurements);
    }
    if (only !== 'store') {
      const competitors = names.map((name) => ({
        contender: 'redis' as const,
        library: libraries[name],
        name,
      }));
      found.push(...(await measureHttp(context, rounds, HTTP_SCENARIOS, competitors)).measurements);
    }
    starts.push(found);
    progress.end();
  }
  return together(starts);
}

/** Head ÷ base, of the rate and of both costs. */
function rowsOf(measurements: readonly Measurement[]): Row[] {
  return measurements
    .filter(({ entrant }) => entrant === 'head')
    .map((head) => {
      const base = measurements.find((other) => other.entrant === 'base' && isSame(other, head))!;
      const row: Record<string, string> = { what: Object.values(head.factors).join(', ') };
      for (const [name, title] of Object.entries({
        perSecond: 'rate',
        cpuUs: 'CPU',
        redisUs: 'Redis CPU',
      })) {
        const ratio = pairedRatio(head.metrics[name]!.rounds, base.metrics[name]!.rounds);
        row[title] = `${inDigits(ratio.estimate)} (${intervalOf(ratio)})`;
      }
      return row;
    });
}
