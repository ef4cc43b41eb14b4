import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { sum } from '../sum.js';
import type { Row } from '../../test/support/docs/figures/report.js';
import { inParallel, simulateApart } from './apart.js';
import { SHARD } from './arguments.js';
import { Coverage } from './coverage.js';
import type { Summary } from './simulate.js';

interface Shards {
  /** One for each shard, and their sum. */
  readonly rows: readonly Row[];
  /** Of those that came to an objection. */
  readonly failed: number;
}

/**
 * Runs shards, each a process with a seed of its own. Those that have ended before are not run again.
 * @param atOnce - processes.
 */
export async function runShards(
  seed: number,
  requests: number,
  folder: string,
  atOnce: number,
): Promise<Shards> {
  mkdirSync(folder, { recursive: true });
  const sizes = Array.from({ length: Math.ceil(requests / SHARD) }, (_, index) =>
    Math.min(SHARD, requests - index * SHARD),
  );
  const ended = await inParallel([...sizes.entries()], atOnce, ([index, size]) =>
    runShard(seed + index, size, folder),
  );
  const summaries = ended.filter((each) => typeof each !== 'string');
  return {
    rows: [...summaries.map(rowOf), sumOf(summaries)],
    failed: ended.length - summaries.length,
  };
}

async function runShard(seed: number, requests: number, folder: string): Promise<Summary | string> {
  const kept = resolve(folder, `shard-${seed}-${requests}.json`);
  if (existsSync(kept)) return JSON.parse(readFileSync(kept, 'utf8')) as Summary;
  const ended = await simulateApart(process.execPath, seed, requests);
  const hasFailed = typeof ended === 'string';
  if (!hasFailed) writeFileSync(kept, JSON.stringify(ended));
  const how = hasFailed ? `came to an objection:\n${ended}` : 'has ended';
  process.stderr.write(`${new Date().toISOString()} the shard of seed ${seed} ${how}\n`);
  return ended;
}

function rowOf({ seed, requests, episodes, steps, counts, cpuSeconds }: Summary): Row {
  const coverage = new Coverage();
  coverage.add(counts);
  const { crash = 0, 'lost reply': lostReplies = 0, ...others } = counts.faults ?? {};
  return {
    // Not as a number: it is no quantity.
    seed: String(seed),
    requests,
    episodes,
    'choices of the scheduler': steps,
    crashes: crash,
    'lost replies': lostReplies,
    'other faults': sum(Object.values(others)),
    'executed again, reported': coverage.of('figures', 'extraExecutions'),
    'CPU s': Math.round(cpuSeconds),
  };
}

function sumOf(summaries: readonly Summary[]): Row {
  const coverage = new Coverage();
  for (const { counts } of summaries) coverage.add(counts);
  const row = rowOf({
    seed: 0,
    requests: sum(summaries.map(({ requests }) => requests)),
    episodes: sum(summaries.map(({ episodes }) => episodes)),
    steps: sum(summaries.map(({ steps }) => steps)),
    digest: '',
    cpuSeconds: sum(summaries.map(({ cpuSeconds }) => cpuSeconds)),
    counts: coverage.counts,
  });
  return { ...row, seed: 'all' };
}
