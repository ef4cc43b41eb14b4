import { Clients } from './clients.js';
import { Coverage, type Counts } from './coverage.js';
import { trouble } from './faults.js';
import { objectionsTo } from './judge.js';
import { FAULTS, type Plan } from './plan.js';
import { World } from './world/world.js';

export interface EpisodeResult {
  readonly plan: Plan;
  /** What must not have happened; empty if all is well. */
  readonly objections: readonly string[];
  /** Requests that were sent. */
  readonly requests: number;
  readonly steps: number;
  /** Of all that happened, in order. */
  readonly digest: string;
  readonly counts: Counts;
}

/** Longer than anything goes on that no client waits for, such as saving an outcome. */
const REST_MS = 30_000;

/** Runs an episode in virtual time, to its end or to its first objection. */
export async function runEpisode(
  plan: Plan,
  onLine?: (line: string) => void,
): Promise<EpisodeResult> {
  const coverage = new Coverage();
  const world = new World(plan, coverage);
  world.history.onLine = onLine;
  const story = { hasEnded: false };
  const failed = (error: unknown) => {
    world.object(`an error was thrown: ${String((error as Error).stack)}`);
  };
  void play(world)
    .catch(failed)
    .finally(() => {
      story.hasEnded = true;
    });
  await world.scheduler.run(() => story.hasEnded || world.objections.length > 0).catch(failed);
  if (!story.hasEnded && world.objections.length === 0) world.object('nothing happens any more');
  countPairs(world);
  return {
    plan,
    objections: world.objections,
    requests: world.responses.length,
    steps: world.scheduler.steps,
    digest: world.history.digest(),
    counts: coverage.counts,
  };
}

async function play(world: World): Promise<void> {
  world.start();
  trouble(world);
  const clients = new Clients(world);
  await clients.run();
  await heal(world);
  const stuck = await clients.sweep();
  world.isOver = true;
  await world.pause(REST_MS);
  for (const objection of objectionsTo(world, stuck)) world.object(objection);
  world.rules.shutdowns.checkLeaks();
}

async function heal(world: World): Promise<void> {
  world.isHealed = true;
  world.network.heal();
  for (const { store } of world.living()) store.blackHoleUntil = -Infinity;
  await world.pause(1_000);
}

function countPairs({ coverage, touched }: World): void {
  for (const faults of touched.values()) {
    const all = FAULTS.filter((fault) => faults.has(fault));
    for (const [index, one] of all.entries()) {
      for (const other of all.slice(index + 1)) {
        coverage.count('pairs of faults on a key', `${one} + ${other}`);
      }
    }
  }
}
