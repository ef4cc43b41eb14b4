/**
 * How long answers take while the store is away.
 * Measured, not asserted: a busy machine makes anything late. It fails only when an answer is wrong.
 */
import 'reflect-metadata';
import { spawnSync } from 'node:child_process';
import { keepReport } from '../../../test/support/docs/figures/keep-report.js';
import { argumentsOf, fromCommandLine, valuesOf } from '../../command-line.js';
import { measureOutage, type Measurement } from './measure-outage.js';
import { blackHole, rejectedConnections } from './outages.js';

const USAGE = 'npm run lab -- measure outage [--requests N] [--report NAME]';
const { report, requests } = fromCommandLine(USAGE, valuesOf({ requests: 500 }));

const measurements: Measurement[] = [];
for (const makeOutage of [blackHole, rejectedConnections]) {
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

keepReport(report, 'measure outage', argumentsOf({ requests }), { Redis: redisVersion() }, table);

function redisVersion(): string {
  const { stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' });
  return /v=(\S+)/.exec(stdout)?.[1] ?? 'unknown';
}
