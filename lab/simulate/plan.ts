import { Random } from '../../test/integration/differential/random.js';

/** Everything that troubles an episode, by the names that coverage prints. */
export const FAULTS = [
  'crash',
  'pause',
  'block',
  'drain',
  'lost request',
  'lost reply',
  'copy',
  'late copy',
  'slow network',
  'cut',
  'black hole',
  'rejection',
  'clock step',
  'restart',
  'data loss',
  'failover',
  'client leaves',
  'other content',
] as const;

export type Fault = (typeof FAULTS)[number];

/** How an operation is protected, and how long it takes. Durations are in milliseconds. */
export interface OperationPlan {
  readonly kind: 'http' | 'call' | 'message';
  readonly duplicates: 'reject' | 'wait';
  readonly onTakeover: 'run' | 'reject' | 'recover';
  readonly whenNotSaved: 'respond' | 'error';
  readonly whenUnavailable: 'reject' | 'execute';
  readonly leaseMs: number;
  readonly maxExecutionMs: number;
  readonly commandTimeoutMs: number;
  readonly saveTimeoutMs: number;
  readonly waitMs: number;
  readonly retentionMs: number;
  /** Whether only that it is done is stored. */
  readonly storesNothing: boolean;
}

/** All that decides an episode: the same plan, the same history. */
export interface Plan {
  readonly seed: number;
  readonly requests: number;
  readonly processes: number;
  /** How many requests are under way at a time. */
  readonly atOnce: number;
  readonly requestsPerKey: number;
  /** What the first shard of the store runs on; the second is the other one. */
  readonly store: 'transitions' | 'memory';
  readonly notifies: boolean;
  readonly reconciles: boolean;
  readonly maxWaiters: number;
  readonly faults: readonly Fault[];
  /** Milliseconds between two injections of each fault, on average. */
  readonly everyMs: number;
  readonly operations: readonly OperationPlan[];
}

/** Enough for faults to meet on a key, and few enough to read when one fails. */
const REQUESTS_PER_EPISODE = 250;

/** One episode in ten is calm, and one in three has one or two kinds of faults only: what is strict there is lenient in a storm. */
function faultsOf(random: Random): Fault[] {
  const kind = random.fraction();
  if (kind < 0.1) return [];
  const count = kind < 0.4 ? random.integer(1, 2) : random.integer(3, FAULTS.length);
  const chosen = new Set<Fault>();
  while (chosen.size < count) chosen.add(random.pick(FAULTS));
  // Without it, there would not be a crash for each twenty requests.
  if (kind >= 0.2) chosen.add('crash');
  return FAULTS.filter((fault) => chosen.has(fault));
}

export function planOf(seed: number, requests = REQUESTS_PER_EPISODE): Plan {
  const random = new Random(seed);
  return {
    seed,
    requests,
    processes: random.integer(1, 4),
    atOnce: random.integer(4, 24),
    requestsPerKey: random.integer(3, 9),
    store: random.pick(['transitions', 'memory']),
    notifies: random.chance(0.7),
    reconciles: random.chance(0.4),
    maxWaiters: random.chance(0.1) ? random.integer(0, 2) : 1_000,
    faults: faultsOf(random),
    everyMs: random.integer(30, 300),
    operations: Array.from({ length: random.integer(1, 3) }, () => operationOf(random)),
  };
}

function operationOf(random: Random): OperationPlan {
  const leaseMs = random.pick([100, 200, 400, 900]);
  const commandTimeoutMs = random.pick([20, 50, 100, 300]);
  return {
    kind: random.pick(['http', 'http', 'call', 'message']),
    duplicates: random.pick(['reject', 'wait']),
    onTakeover: random.pick(['run', 'run', 'reject', 'recover']),
    whenNotSaved: random.pick(['respond', 'error', 'error']),
    whenUnavailable: random.pick(['reject', 'reject', 'reject', 'execute']),
    leaseMs,
    maxExecutionMs: leaseMs * random.integer(1, 8),
    commandTimeoutMs,
    saveTimeoutMs: commandTimeoutMs * random.integer(1, 4),
    waitMs: random.pick([50, 500, 3_000]),
    storesNothing: random.chance(0.1),
    retentionMs: random.chance(0.15) ? random.integer(50, 2_000) : 86_400_000,
  };
}

/** The seeds of the episodes of a run. */
export function* episodeSeeds(seed: number): Generator<number> {
  const random = new Random(seed);
  for (;;) yield random.integer(0, 2 ** 32 - 1);
}
