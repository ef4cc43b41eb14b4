import type { MutantName } from '../faults/worker/mutants.js';

/** All that a run depends on; the same plan draws the same keys, workers and faults. */
export interface Plan {
  /** How many at the least, over all keys. */
  readonly requests: number;
  /** Of one key. */
  readonly duplicates: number;
  readonly workers: number;
  readonly seed: number;
  /** Name of a topology. */
  readonly topology: string;
  /** Names of faults. */
  readonly faults: readonly string[];
  readonly onSaveFailure: 'error' | 'respond';
  readonly leaseMs: number;
  /** How long a handler takes until it has its effect. */
  readonly effectMs: number;
  /** How many keys are asked for at a time, by two clients each. */
  readonly keysAtOnce: number;
  readonly saveTimeoutMs: number;
  readonly commandTimeoutMs: number;
  /** How many replicas have to confirm begins and completions; 0 for none. */
  readonly waitReplicas: number;
  /** The load goes on until each fault was injected so often, in the order of {@link faults}. */
  readonly injections: readonly number[];
  /** Whether effect and record are one transaction. */
  readonly transactional: boolean;
  /** A mistake that the workers make, to see that the run objects to it. */
  readonly mutant: MutantName | undefined;
  /** The name under which the documentation shows the figures. */
  readonly report: string | undefined;
}

/** What the faults of a run would have the plan be, unless the arguments say otherwise. */
export type PlanDefaults = Partial<
  Pick<Plan, 'leaseMs' | 'effectMs' | 'keysAtOnce' | 'saveTimeoutMs' | 'commandTimeoutMs'>
>;
