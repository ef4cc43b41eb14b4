import { Random } from '../../test/integration/differential/random.js';
import { runEpisode, type EpisodeResult } from './episode.js';
import type { Plan } from './plan.js';

/** How many episodes are run to find a smaller one. */
const TRIES = 400;

/** Other histories of a smaller plan: the same mistake may need another one. */
const SEEDS_PER_PLAN = 6;

/** Finds a smaller plan that comes to the same kind of objection. */
export async function shrink(failed: EpisodeResult, most = TRIES): Promise<EpisodeResult> {
  let smallest = failed;
  let tries = 0;
  const kind = kindOf(failed);
  const random = new Random(failed.plan.seed);
  const fails = async (plan: Plan): Promise<EpisodeResult | undefined> => {
    for (let round = 0; round < SEEDS_PER_PLAN && tries < most; round += 1) {
      tries += 1;
      const seed = round === 0 ? plan.seed : random.integer(0, 2 ** 32 - 1);
      const result = await runEpisode({ ...plan, seed });
      if (kindOf(result) === kind) return result;
    }
    return undefined;
  };
  for (let isSmaller = true; isSmaller && tries < most;) {
    isSmaller = false;
    for (const plan of smallerPlans(smallest.plan)) {
      const result = await fails(plan);
      if (result === undefined) continue;
      smallest = result;
      isSmaller = true;
      break;
    }
  }
  return smallest;
}

/** The first objection, without keys and numbers. */
function kindOf({ objections }: EpisodeResult): string | undefined {
  return objections[0]?.replace(/\bkey-\d+|process-\d+|\d+/g, '#').slice(0, 60);
}

/** The largest steps first. */
function* smallerPlans(plan: Plan): Generator<Plan> {
  for (const part of [0.25, 0.5, 0.8]) {
    const requests = Math.floor(plan.requests * part);
    if (requests >= 2) yield { ...plan, requests };
  }
  for (const fault of plan.faults) {
    yield { ...plan, faults: plan.faults.filter((other) => other !== fault) };
  }
  if (plan.operations.length > 1) {
    for (const operation of plan.operations) yield { ...plan, operations: [operation] };
  }
  if (plan.processes > 1) yield { ...plan, processes: plan.processes - 1 };
  if (plan.atOnce > 1) yield { ...plan, atOnce: Math.ceil(plan.atOnce / 2) };
  if (plan.reconciles) yield { ...plan, reconciles: false };
  if (plan.notifies) yield { ...plan, notifies: false };
}
