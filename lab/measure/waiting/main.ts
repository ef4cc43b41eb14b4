import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { fromCommandLine, valuesOf } from '../../command-line.js';
import { typescriptNodeOptions } from '../../../test/support/typescript/node-options.js';
import { Crowd, type Responded } from './crowd.js';

/**
 * How long a thousand duplicates of one request wait for its outcome, beside a thousand requests of a bare
 * route whose handler takes as long. Rounds of both alternate in one run.
 */
const CLIENTS = 1_000;
const WARM_UP_ROUNDS = 3;
const ROUNDS = 15;

interface Round {
  readonly p50: number;
  readonly p99: number;
}

const { report } = fromCommandLine('npm run lab -- measure waiting [--report NAME]', valuesOf({}));
const redis = await startRedis();
const observer = new Redis(redis.url);
const [, version = ''] = /redis_version:(\S+)/.exec(await observer.info('server')) ?? [];
const rows: Row[] = [];
for (const platform of ['express', 'fastify']) {
  rows.push({ platform, ...(await measure(platform)) });
  process.stderr.write(`${platform} done\n`);
}
observer.disconnect();
await redis.stop();
console.table(rows);
keepReport(report, 'measure waiting', [], { Redis: version }, rows);

async function measure(platform: string): Promise<Row> {
  const app = fork(new URL('app.ts', import.meta.url), {
    execArgv: [...typescriptNodeOptions],
    env: { ...process.env, PLATFORM: platform, REDIS_URL: redis.url },
  });
  const [url] = (await once(app, 'message')) as [string];
  const crowd = await Crowd.gather(url, CLIENTS);
  const bare: Round[] = [];
  const waiting: Round[] = [];
  let commands = 0;
  for (let round = 1 - WARM_UP_ROUNDS; round <= ROUNDS; round += 1) {
    const unprotected = await crowd.ask('/bare', randomUUID());
    expectAll(unprotected, CLIENTS);
    await observer.config('RESETSTAT');
    const duplicates = await crowd.ask('/waiting', randomUUID());
    expectAll(duplicates, 1);
    if (round < 1) continue;
    commands += await commandsSoFar();
    bare.push(summary(unprotected));
    waiting.push(summary(duplicates));
  }
  crowd.leave();
  app.kill();
  await once(app, 'exit');
  const ratios = waiting.map(({ p99 }, i) => p99 / (bare[i]?.p99 ?? NaN));
  return {
    'bare p50 ms': Math.round(median(bare.map(({ p50 }) => p50))),
    'bare p99 ms': Math.round(median(bare.map(({ p99 }) => p99))),
    'waiting p50 ms': Math.round(median(waiting.map(({ p50 }) => p50))),
    'waiting p99 ms': Math.round(median(waiting.map(({ p99 }) => p99))),
    'p99 ratio': Number(median(ratios).toFixed(2)),
    'in all rounds': `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`,
    'commands per waiter': Number((commands / ROUNDS / CLIENTS).toFixed(3)),
  };
}

/** The effects are the oracle: each execution answers with its own number. */
function expectAll(responses: readonly Responded[], executions: number): void {
  const failed = responses.find(({ status }) => status !== 201);
  if (failed !== undefined) throw new Error(`answered ${failed.status}: ${failed.body}`);
  const bodies = new Set(responses.map(({ body }) => body));
  if (bodies.size !== executions) throw new Error(`${bodies.size} executions, not ${executions}`);
}

/** What clients sent to the server, without what the scripts called. */
async function commandsSoFar(): Promise<number> {
  const statistics = await observer.info('commandstats');
  const sent = /^cmdstat_(?:eval|evalsha|subscribe|unsubscribe):calls=(\d+)/gm;
  return [...statistics.matchAll(sent)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

function summary(responses: readonly Responded[]): Round {
  const sorted = responses.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (part: number) => sorted[Math.ceil(sorted.length * part) - 1] ?? NaN;
  return { p50: at(0.5), p99: at(0.99) };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? NaN;
}
