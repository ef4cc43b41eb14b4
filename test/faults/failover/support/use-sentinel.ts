import { afterAll, afterEach, beforeAll, beforeEach, jest } from '@jest/globals';
import { RedisSentinel } from '../../../support/redis/redis-sentinel.js';
import type { LedgerWorker } from '../../store/support/ledger-worker.js';
import { FailoverScene } from './failover-scene.js';
import { FAILOVER_TEST_MS } from './long-timeouts.js';

export interface UsedSentinel {
  readonly group: RedisSentinel;
  /** New for each test, as are its workers. */
  readonly scene: FailoverScene;
  readonly alice: LedgerWorker;
  readonly bob: LedgerWorker;
}

/** One group for the whole test file, in order before each test. */
export function useSentinel(): UsedSentinel {
  const used = {} as { -readonly [Name in keyof UsedSentinel]: UsedSentinel[Name] };
  jest.setTimeout(FAILOVER_TEST_MS);
  beforeAll(async () => {
    used.group = await RedisSentinel.start();
  });
  beforeEach(async () => {
    await used.group.untilHealthy();
    used.scene = new FailoverScene();
    used.alice = await used.scene.sentinelWorker(used.group);
    used.bob = await used.scene.sentinelWorker(used.group);
  });
  afterEach(() => used.scene.stop());
  afterAll(() => used.group.stop());
  return used;
}

/** The primary dies, and returns as a replica once another one is in its place. */
export async function loseThePrimary({ group }: UsedSentinel): Promise<void> {
  const old = await group.primary();
  await old.kill();
  await group.untilReplaced(old);
  await group.restart(old);
}
