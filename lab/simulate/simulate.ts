import { createHash } from 'node:crypto';
import { Coverage, type Counts } from './coverage.js';
import { runEpisode, type EpisodeResult } from './episode.js';
import { FAULTS, episodeSeeds, planOf } from './plan.js';
import { REPLIES } from './world/commands.js';

/** What a run came to. As JSON, it can be kept and summed up. */
export interface Summary {
  readonly seed: number;
  readonly requests: number;
  readonly episodes: number;
  /** Choices of the scheduler. */
  readonly steps: number;
  /** Of the histories of all episodes. */
  readonly digest: string;
  readonly cpuSeconds: number;
  readonly counts: Counts;
}

export interface Run {
  readonly summary: Summary;
  /** The first episode that came to an objection; the run ends with it. */
  readonly failure: EpisodeResult | undefined;
}

/**
 * Runs episodes until so many requests were sent, or until the first objection.
 * @param most - how many requests to send, at most, until everything has been tried.
 */
export async function simulate(seed: number, requests: number, most = requests): Promise<Run> {
  const coverage = new Coverage();
  const digest = createHash('sha256');
  const cpu = process.cpuUsage();
  let [sent, episodes, steps] = [0, 0, 0];
  let failure: EpisodeResult | undefined;
  for (const episodeSeed of episodeSeeds(seed)) {
    const result = await runEpisode(planOf(episodeSeed));
    sent += result.requests;
    steps += result.steps;
    episodes += 1;
    digest.update(result.digest);
    coverage.add(result.counts);
    if (result.objections.length > 0) failure = result;
    if (failure !== undefined || sent >= most) break;
    if (sent >= requests && untried(coverage.counts, requests).length === 0) break;
  }
  const { user, system } = process.cpuUsage(cpu);
  const cpuSeconds = (user + system) / 1e6;
  const { counts } = coverage;
  return {
    summary: {
      seed,
      requests: sent,
      episodes,
      steps,
      digest: digest.digest('hex'),
      cpuSeconds,
      counts,
    },
    failure,
  };
}

/**
 * What a run must have tried: a generator that does nothing finds nothing.
 * @param requests - how many the run was to send, at least.
 */
export function untried(counts: Counts, requests: number): string[] {
  const coverage = new Coverage();
  coverage.add(counts);
  const missing: string[] = [];
  for (const [command, kinds] of Object.entries(REPLIES)) {
    for (const kind of kinds) {
      if (coverage.of(`executed ${command}`, kind) === 0) missing.push(`${command} → ${kind}`);
    }
  }
  for (const fault of FAULTS) {
    if (coverage.of('faults', fault) === 0) missing.push(fault);
  }
  const crashes = coverage.of('faults', 'crash');
  const wanted = Math.floor(requests / 20);
  if (crashes < wanted) missing.push(`${wanted} crashes: there were ${crashes}`);
  return missing;
}
