import type { Expectations } from '../../faults/expectations.js';
import type { Lab } from '../../faults/lab.js';
import type { Mishap } from '../../faults/worker/mishap.js';
import type { Random } from '../../../test/integration/differential/random.js';
import type { Plan, PlanDefaults } from '../plan.js';
import type { RunningTopology } from '../topologies/topology.js';
import type { WorkerPool } from '../worker-pool.js';

/** One way to make trouble. */
export interface Fault {
  /**
   * Names of the topologies at which it can be injected.
   *
   * @defaultValue all of them
   */
  readonly topologies?: readonly string[];
  /** What it needs to bite, unless the arguments say otherwise. */
  readonly defaults?: PlanDefaults;
  /** What may happen under it that otherwise must not. */
  tolerates(plan: Plan): Partial<Expectations>;
  start(field: Field): RunningFault;
}

/** What a fault can lay its hands on. */
export interface Field {
  readonly plan: Plan;
  /** Of this fault alone, so that the others draw what they draw without it. */
  readonly random: Random;
  readonly lab: Lab;
  readonly pool: WorkerPool;
  readonly topology: RunningTopology;
}

export interface RunningFault {
  /** What it did so far, for progress and report. */
  figures(): Readonly<Record<string, number>>;
  /** How often it was injected, in the unit of `--injections`. */
  injections(): number;
  /** The fault for the first request of a key. */
  readonly mishap?: (random: Random) => Mishap | undefined;
  /** Ends it and repairs what it broke. */
  stop(): Promise<void>;
}
