/**
 * The whole engine in virtual time: several processes, a store behind a network, clients and faults, all driven by one
 * seeded scheduler. Fails at the first objection of the oracle, with the plan of an episode that comes to it again.
 */
import { keepReport, type Row } from '../../test/support/docs/figures/report.js';
import { fromCommandLine } from '../command-line.js';
import { argumentsFrom, USAGE } from './arguments.js';
import { Coverage } from './coverage.js';
import { runEpisode, type EpisodeResult } from './episode.js';
import { compareNodes } from './nodes.js';
import { runShards } from './shards.js';
import { shrink } from './shrink.js';
import { simulate, untried, type Summary } from './simulate.js';

const { requests, seed, plan, trace, shards, folder, nodes, jobs, json, shrinks, report } =
  fromCommandLine(USAGE, argumentsFrom);
if (plan !== undefined) {
  const result = await runEpisode(plan, trace ? (line) => console.log(line) : undefined);
  if (result.objections.length > 0) await fail(result, result.requests);
  else console.log(`no objection after ${result.requests} requests, digest ${result.digest}`);
} else if (shards) {
  const { rows, failed } = await runShards(seed, requests, folder, jobs);
  conclude('--shards', rows, failed === 0);
} else if (nodes) {
  const { rows, different } = await compareNodes(seed, requests, jobs);
  if (different.length > 0) console.log(`not the same on each Node: ${different.join(', ')}`);
  conclude('--nodes', rows, different.length === 0);
} else {
  const { summary, failure } = await simulate(seed, requests);
  if (failure !== undefined) await fail(failure, summary.requests);
  print(summary);
}

/** Keeps the figures of a run that is as it should be. */
function conclude(what: string, rows: readonly Row[], isFine: boolean): void {
  console.table(rows);
  process.exitCode = isFine ? 0 : 1;
  const args = [what, '--requests', String(requests), '--seed', String(seed)];
  if (isFine) keepReport(report, 'simulate', args, {}, rows);
}

function print(summary: Summary): void {
  if (json) {
    console.log(JSON.stringify(summary));
    return;
  }
  const { counts, episodes, steps, cpuSeconds, digest } = summary;
  const rate = Math.round(summary.requests / cpuSeconds);
  console.log(
    `seed ${seed}: ${summary.requests} requests in ${episodes} episodes, ${steps} steps, ${cpuSeconds.toFixed(1)} s of CPU (${rate} requests each)`,
  );
  console.log(`digest ${digest}`);
  const coverage = new Coverage();
  coverage.add(counts);
  for (const line of coverage.lines()) console.log(line);
  const missing = untried(counts, summary.requests);
  if (missing.length > 0) console.log(`not tried: ${missing.join(', ')}`);
}

async function fail(failure: EpisodeResult, sent: number): Promise<void> {
  process.exitCode = 1;
  const [first, ...others] = failure.objections;
  console.log(`objection: ${first} (after ${sent} requests, seed ${seed})`);
  for (const other of others) console.log(`and: ${other}`);
  const smallest = shrinks && plan === undefined ? await shrink(failure) : failure;
  if (smallest !== failure) console.log(`in a smaller episode: ${smallest.objections[0]}`);
  console.log(`npm run lab -- simulate --trace --plan '${JSON.stringify(smallest.plan)}'`);
}
