import { afterAll, afterEach, beforeAll, beforeEach, jest } from '@jest/globals';
import type { Cluster } from 'ioredis';
import type { ProtocolOptions, OperationRequest } from '../../../support/internals/core.js';
import { clusterClient } from '../../../../examples/operations/redis.js';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import type { RedisNode } from '../../../support/redis/redis-node.js';
import { labRequest } from '../../store/support/requests.js';
import type { LedgerWorker } from '../../store/support/ledger-worker.js';
import { FailoverScene } from './failover-scene.js';
import { FAILOVER_TEST_MS, LONG_TIMEOUTS } from './long-timeouts.js';

export interface UsedCluster {
  readonly servers: RedisCluster;
  /** New for each test, as are its workers. */
  readonly scene: FailoverScene;
  readonly alice: LedgerWorker;
  readonly bob: LedgerWorker;
}

/** One cluster for the whole test file, in order before each test. */
export function useCluster(): UsedCluster {
  const used = {} as { -readonly [Name in keyof UsedCluster]: UsedCluster[Name] };
  let clients: Cluster[];
  jest.setTimeout(FAILOVER_TEST_MS);
  beforeAll(async () => {
    used.servers = await RedisCluster.start({ args: ['--cluster-require-full-coverage', 'no'] });
  });
  beforeEach(async () => {
    await used.servers.untilHealthy();
    used.scene = new FailoverScene();
    clients = [0, 1].map(() => clusterClient(used.servers.addresses));
    [used.alice, used.bob] = (await Promise.all(
      clients.map((client) => used.scene.worker({ client })),
    )) as [LedgerWorker, LedgerWorker];
  });
  afterEach(async () => {
    await used.scene.stop();
    for (const client of clients) client.disconnect();
  });
  afterAll(() => used.servers.stop());
  return used;
}

export function slotOf({ servers }: UsedCluster, { recordKey }: OperationRequest): Promise<number> {
  return servers.slotOf(`idem:1:${recordKey}`);
}

export async function ownerOf(used: UsedCluster, request: OperationRequest): Promise<RedisNode> {
  return used.servers.primaryOf(await slotOf(used, request));
}

/** Records in as many slots as there are requests. */
export function requestsOf(
  count: number,
  options: ProtocolOptions = LONG_TIMEOUTS,
): OperationRequest[] {
  return Array.from({ length: count }, () => labRequest(options));
}
