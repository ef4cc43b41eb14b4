import { describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { redisStore } from 'nestjs-idempotency/redis';
import { afterTest } from '../../support/jest/after-test.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { useServer } from '../../support/servers/use-server.js';
import { beginCommand } from '../../support/stores/commands.js';
import { untilSettled } from '../../support/waiting/until.js';

const RECORDS = 900;
const PAGE = { limit: 500, maxScanned: 100, timeoutMs: 2_000 };

describe('A list of a cluster', () => {
  const cluster = useServer(() => RedisCluster.start({ replicas: 1 }));

  /** By the order of names, the server that takes over may come before those that were looked at. */
  it.each([0, 1, 2])(
    'has each record, though the primary %i by name fails over meanwhile',
    async (at) => {
      const client = new Cluster(cluster.addresses);
      afterTest(() => client.disconnect());
      const store = redisStore({ client });
      const begins = Array.from({ length: RECORDS }, () => beginCommand());
      for (const begin of begins) await store.begin(begin);
      const primaries = await cluster.primaries();
      const failing = primaries.sort((one, other) => (one.port < other.port ? -1 : 1))[at]!;
      await failing.call('WAIT', '1', '5000');
      const listed = new Set<string>();
      let cursor: string | undefined;
      let pages = 0;
      const page = async () => {
        const { records, cursor: next } = await store.list({ ...PAGE, cursor });
        for (const { recordKey } of records) listed.add(recordKey);
        cursor = next;
        pages += 1;
      };
      while (pages < 4) await page();
      await cluster.failover(failing, 'planned');
      // Meanwhile a page may fail; the operator asks for it again.
      do
        await untilSettled(() =>
          page().then(
            () => true,
            () => false,
          ),
        );
      while (cursor !== undefined);
      const missing = begins.filter(({ recordKey }) => !listed.has(recordKey));
      expect(missing).toEqual([]);
    },
    120_000,
  );
});
