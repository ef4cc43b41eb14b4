/**
 * How long answers take while the store is away: `npm run measure:outage -- [--requests N] [--report NAME]`.
 * Measured, not asserted: a busy machine makes anything late. It fails only when an answer is wrong.
 */
import 'reflect-metadata';
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { keepReport } from '../../support/figures/keep-report.js';
import { measureOutage, type Measurement } from './outage/measure-outage.js';
import { blackHole, refusedConnections } from './outage/outages.js';

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '500' }, report: { type: 'string' } },
});
const requests = Number(values.requests);
if (!Number.isSafeInteger(requests) || requests < 1) {
  throw new Error(`--requests must be a positive integer, but it is ${values.requests}.`);
}

const measurements: Measurement[] = [];
for (const makeOutage of [blackHole, refusedConnections]) {
  for (const breaker of [false, true]) {
    for (const platform of ['express', 'fastify'] as const) {
      const outage = await makeOutage();
      console.error(`${outage.name}, ${platform}, breaker ${breaker ? 'on' : 'off'} …`);
      try {
        measurements.push(...(await measureOutage(platform, outage, breaker, requests)));
      } finally {
        await outage.stop();
      }
    }
  }
}

const table = measurements.map(({ platform, outage, breaker, what, figures, budgetMs }) => ({
  store: outage,
  breaker,
  platform,
  what,
  n: figures.count,
  'p50 ms': figures.p50,
  'p99 ms': figures.p99,
  'max ms': figures.max,
  'budget ms': budgetMs ?? '–',
  'p99 within': budgetMs === undefined ? '–' : figures.p99 <= budgetMs ? 'yes' : 'NO',
}));
console.table(table);

if (values.report !== undefined) {
  const args = ['--requests', values.requests];
  keepReport(values.report, 'measure:outage', args, { Redis: redisVersion() }, table);
}

function redisVersion(): string {
  const { stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' });
  return /v=(\S+)/.exec(stdout)?.[1] ?? 'unknown';
}
