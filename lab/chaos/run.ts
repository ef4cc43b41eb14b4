import { faults } from './faults/index.js';
import type { Fault, Field, RunningFault } from './faults/fault.js';
import { expectationsOf } from './tolerances.js';
import { Load } from './load.js';
import type { Plan } from './plan.js';
import type { Watch } from './progress.js';
import { topologies } from './topologies/index.js';
import type { RunningTopology } from './topologies/topology.js';
import { WorkerPool } from './worker-pool.js';
import { Lab } from '../faults/lab.js';
import { judge, type Verdict } from '../faults/oracle.js';
import type { Evidence } from '../faults/evidence.js';
import type { Mishap } from '../faults/worker/mishap.js';
import { Random } from '../../test/integration/differential/random.js';

export interface RunResult extends Verdict {
  readonly evidence: Evidence;
  /** What the faults did. */
  readonly trouble: Readonly<Record<string, number>>;
  /** How long the load lasted. */
  readonly seconds: number;
  /** Under the load, the questions at the end aside. */
  readonly requestsPerSecond: number;
  /** Versions of the servers' software, by its name. */
  readonly servers: Readonly<Record<string, string>>;
}

const unwatched: Watch = () => () => undefined;

/** Plays a plan from the start of its servers to the verdict. */
export async function runChaos(plan: Plan, watch: Watch = unwatched): Promise<RunResult> {
  const chosen = plan.faults.map((name) => named(faults, name));
  const topology = await named(topologies, plan.topology).start(plan);
  try {
    const lab = await Lab.set();
    try {
      return await runSteps(plan, chosen, topology, lab, watch);
    } finally {
      await lab.clear();
    }
  } finally {
    await topology.stop();
  }
}

async function runSteps(
  plan: Plan,
  chosen: readonly Fault[],
  topology: RunningTopology,
  lab: Lab,
  watch: Watch,
): Promise<RunResult> {
  const pool = await WorkerPool.start(lab, (slot) => topology.storeFor(slot), plan);
  const running: RunningFault[] = [];
  const figures = () => Object.assign({}, ...running.map((fault) => fault.figures()));
  const load = new Load(plan, lab.client, pool, {
    areDone: () => running.every((fault, index) => fault.injections() >= plan.injections[index]!),
    mishap: (random) => firstMishap(running, random),
  });
  const unwatch = watch(lab.clients, load, figures);
  const startedAt = performance.now();
  try {
    chosen.forEach((fault, index) => {
      const field: Field = { plan, random: new Random(plan.seed + index), lab, pool, topology };
      running.push(fault.start(field));
    });
    try {
      await load.run();
    } finally {
      await Promise.all(running.map((fault) => fault.stop()));
    }
    const seconds = (performance.now() - startedAt) / 1_000;
    const { requests } = lab.clients;
    await pool.untilAllUp();
    const stuck = await load.askAgain();
    await pool.terminate();
    const ledger = plan.transactional ? await topology.effects!() : lab.effects();
    const evidence = { ...lab.evidence(stuck), ledger };
    const { objections, ...verdict } = judge(evidence, expectationsOf(plan, chosen));
    return {
      evidence,
      ...verdict,
      objections: [
        ...objections,
        ...pool.collapses.map((log) => `a worker ended by itself: ${log}`),
      ],
      trouble: figures(),
      seconds,
      requestsPerSecond: Math.round(requests / seconds),
      servers: topology.servers,
    };
  } finally {
    unwatch();
  }
}

function firstMishap(running: readonly RunningFault[], random: Random): Mishap | undefined {
  return running.map(({ mishap }) => mishap?.(random)).find((mishap) => mishap !== undefined);
}

function named<Thing>(registry: ReadonlyMap<string, Thing>, name: string): Thing {
  const thing = registry.get(name);
  if (thing === undefined) throw new Error(`there is nothing of the name ${name}`);
  return thing;
}
