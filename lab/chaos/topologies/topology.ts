import type { RedisProxy } from '../../../test/support/redis/proxy/redis-proxy.js';
import type { Effect } from '../../faults/worker/lines.js';
import type { StoreSettings } from '../../faults/worker/settings.js';
import type { Random } from '../../../test/integration/differential/random.js';
import type { Plan } from '../plan.js';

/** How the servers of a run are put together. */
export interface Topology {
  start(plan: Plan): Promise<RunningTopology>;
}

export interface RunningTopology {
  /** Versions of the servers' software, by its name. */
  readonly servers: Readonly<Record<string, string>>;
  /** What stands between each worker and the store, where something does. */
  readonly ways: readonly RedisProxy[];
  /** @param slot - number of a worker, from 0; the same for all its starts. */
  storeFor(slot: number): StoreSettings;
  /** Sends a command of Redis to every server that takes writes. */
  readonly command?: (...words: readonly string[]) => Promise<void>;
  /** Puts another server into a primary's place; resolves when the next failover may come. */
  readonly failover?: (kind: FailoverKind, random: Random) => Promise<void>;
  /** Moves a slot that has records to another node. */
  readonly migrateSlot?: (random: Random) => Promise<void>;
  /** Ends some of the workers' connections at the server. @returns how many. */
  readonly terminateBackends?: (random: Random) => Promise<number>;
  /** What a transactional run has written beside its records. */
  readonly effects?: () => Promise<readonly Effect[]>;
  stop(): Promise<void>;
}

/**
 * `planned`: asked for. A cluster's primary hands over all it has; Sentinel lets the old one go on for a
 * moment, and what that one confirms is lost. `crash`: it dies (kill -9), with what no replica has.
 */
export type FailoverKind = 'planned' | 'crash';
