import { parseArgs } from 'node:util';
import type { Row } from '../../test/support/docs/figures/report.js';
import { fromCommandLine, oneOf, wholeNumber } from '../command-line.js';
import { ensureInstalled } from './install.js';
import { NODES, runOn } from './node.js';
import { CHECKOUT, Revisions, type Revision } from './library/revisions.js';
import { isSame, together, type Measurement, type Rounds } from './measuring/interleave.js';
import { pairedRatio } from './measuring/statistics.js';
import { countsOf } from './parts/counts.js';
import { measureHttp } from './parts/http.js';
import { conditions, measureStore } from './parts/store.js';
import { Progress } from './progress.js';
import { inDigits, intervalOf } from './report/budget.js';
import { compareCounts } from './report/compare-counts.js';

const USAGE = `npm run lab -- bench check --base REV [--head REV] [--only counts|store|http] [--starts N] [--rounds N] [--quick]

  Both are installed by their own lockfiles, built by their own builds, and driven by their own benchmark's workers.
  Fails where the head sends other commands than the budget has, or more than the base, stores a larger record, or
  allocates more than a hundredth more for a request. Rates and CPU times are printed, and decide nothing.

  --base    the commit to compare with
  --head    the commit to judge; without it, what lies in the checkout
  --starts  how often the processes are started anew (default 4)
  --rounds  how often each is measured after each start (default 4)
  --quick   short slots, to see that it works`;

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

const { base, head, only, starts, rounds, quick } = fromCommandLine(USAGE, (args) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      base: { type: 'string' },
      head: { type: 'string', default: CHECKOUT },
      only: { type: 'string' },
      starts: { type: 'string' },
      rounds: { type: 'string' },
      quick: { type: 'boolean', default: false },
    },
  });
  if (values.base === undefined) throw new Error('--base must name a commit');
  return {
    ...values,
    base: values.base,
    only: values.only && oneOf('only', values.only, ['counts', 'store', 'http']),
    starts: wholeNumber('starts', values.starts, 4, 1),
    rounds: wholeNumber('rounds', values.rounds, 4, 1),
  };
});

await runOn(NODES[0], import.meta.url);
await ensureInstalled(import.meta.dirname);
const revisions = new Revisions();
try {
  const progress = new Progress('preparation');
  const prepared = {
    base: await revisions.prepare(base, (text) => progress.show(text)),
    head: await revisions.prepare(head, (text) => progress.show(text)),
  };
  progress.end();
  const counted = {
    base: await countsOf(prepared.base.library, prepared.base),
    head: await countsOf(prepared.head.library, prepared.head),
  };
  const compared = compareCounts(counted.base, counted.head);
  console.table(compared.map(({ row }) => row));
  if (compared.some(({ isHeld }) => !isHeld)) process.exitCode = 1;
  const found = only === 'counts' ? [] : await measureBoth(prepared);
  if (found.length > 0) {
    console.log(`all starts of ${head} ÷ ${base}`);
    console.table(rowsOf(together(found)));
  }
} finally {
  revisions.remove();
}

/**
 * Two processes of the same code may differ for as long as they live, by what was compiled when and where it lies. So
 * both are started anew several times, each of them first as often as the other.
 */
async function measureBoth(
  prepared: Readonly<Record<(typeof NAMES)[number], Revision>>,
): Promise<Measurement[][]> {
  const pairs: Rounds = {
    rounds,
    roundMs: quick ? 250 : 1_000,
    warmUpMs: quick ? 500 : 3_000,
    settleMs: 200,
  };
  const all: Measurement[][] = [];
  for (let start = 1; start <= starts; start += 1) {
    const progress = new Progress(`start ${start} of ${starts}`);
    const context = { onProgress: (text: string) => progress.show(text) };
    const names = start % 2 === 1 ? NAMES : [...NAMES].reverse();
    const found: Measurement[] = [];
    if (only !== 'http') {
      const entrants = Object.fromEntries(
        names.map((name) => [name, { kind: 'store', ...prepared[name] } as const]),
      );
      found.push(...(await measureStore(context, pairs, STORE_CONDITIONS, entrants)).measurements);
    }
    if (only !== 'store') {
      const competitors = names.map((name) => ({
        contender: 'redis' as const,
        ...prepared[name],
        name,
      }));
      found.push(...(await measureHttp(context, pairs, HTTP_SCENARIOS, competitors)).measurements);
    }
    all.push(found);
    progress.end();
    console.table(rowsOf(found));
  }
  return all;
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
