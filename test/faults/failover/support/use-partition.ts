import { afterEach, beforeEach, jest } from '@jest/globals';
import { RedisSentinel } from '../../../support/redis/redis-sentinel.js';
import type { LedgerWorker } from '../../store/support/ledger-worker.js';
import { FailoverScene } from './failover-scene.js';
import { admitWorkers, Partition, WORKER } from './partition.js';
import { FAILOVER_TEST_MS } from './long-timeouts.js';

/** New for each test. */
export interface UsedPartition {
  readonly group: RedisSentinel;
  readonly scene: FailoverScene;
  /** Connected to the old primary, before it is isolated and while it is. */
  readonly alice: LedgerWorker;
  /** Isolates the primary. */
  part(): Promise<Partition>;
  /** A process on the side of the new primary. */
  newcomer(): Promise<LedgerWorker>;
}

/** A separate group for each test: one that was partitioned may take a minute to recover. */
export function usePartition(): UsedPartition {
  let partition: Partition | undefined;
  const used = {
    async part() {
      partition = await Partition.around(used.group);
      return partition;
    },
    newcomer: () => used.scene.sentinelWorker(used.group, WORKER),
  } as { -readonly [Name in keyof UsedPartition]: UsedPartition[Name] };
  jest.setTimeout(FAILOVER_TEST_MS);
  beforeEach(async () => {
    used.group = await RedisSentinel.start();
    await admitWorkers(used.group);
    used.scene = new FailoverScene();
    // The Sentinels do not reach it either.
    const deaf = { ...WORKER, failoverDetector: false };
    used.alice = await used.scene.sentinelWorker(used.group, deaf);
  });
  afterEach(async () => {
    partition?.stop();
    partition = undefined;
    await used.scene.stop();
    await used.group.stop();
  });
  return used;
}
