/**
 * How long answers take while the store is away: `npm run measure:outage -- [--requests N] [--report FILE]`.
 * Measured, not asserted: a busy machine makes anything late. It fails only when an answer is wrong.
 */
import 'reflect-metadata';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { projectRoot } from '../support/project-root.js';
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

console.table(
  measurements.map(({ platform, outage, breaker, what, figures, budgetMs }) => ({
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
  })),
);

if (values.report !== undefined) {
  const report = {
    date: new Date().toISOString(),
    versions: { package: packageVersion(), node: process.versions.node, redis: redisVersion() },
    cores: availableParallelism(),
    arguments: { requests },
    measurements,
  };
  writeFileSync(values.report, `${JSON.stringify(report, undefined, 2)}\n`);
}

function packageVersion(): string {
  const manifest = readFileSync(join(projectRoot, 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}

function redisVersion(): string {
  const { stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' });
  return /v=(\S+)/.exec(stdout)?.[1] ?? 'unknown';
}
