import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { redisStore } from 'nestjs-idempotency/redis';
import { afterTest } from '../../support/jest/after-test.js';
import { unpackServer } from '../../support/provision/unpacked-server.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { beginCommand, completeCommand, leaseOf } from '../../support/stores/commands.js';

const valkey = await unpackServer('sid', 'valkey-server');
afterAll(() => valkey?.remove());

/** The newest that Debian has: clusters of Valkey 9 have numbered databases. */
const name = `A cluster of Valkey ${valkey?.version ?? 'of Debian unstable, whose archive cannot be reached'}`;

(valkey === undefined ? describe.skip : describe)(name, () => {
  const before = process.env.REDIS_SERVER_BIN;
  beforeAll(() => {
    process.env.REDIS_SERVER_BIN = valkey!.program('usr/bin/valkey-server');
  });
  afterAll(() => {
    if (before === undefined) delete process.env.REDIS_SERVER_BIN;
    else process.env.REDIS_SERVER_BIN = before;
  });

  async function start(databases: number) {
    const args = ['--cluster-databases', String(databases)];
    const cluster = await RedisCluster.start({ replicas: 0, args });
    afterTest(() => cluster.stop());
    const open = (options: object) => {
      const client = new Cluster(cluster.addresses, options);
      client.on('error', () => undefined);
      afterTest(() => client.disconnect());
      const store = redisStore({ client });
      afterTest(() => store.close());
      return store;
    };
    return { cluster, open };
  }

  it('stops the start where it lacks the database, and no node gets a record', async () => {
    const { cluster, open } = await start(1);
    await expect(open({ redisOptions: { db: 3 } }).open()).rejects.toMatchObject({
      code: 'idempotency_store_misconfigured',
      message: expect.stringContaining('Cannot select database 3'),
    });
    for (const node of cluster.nodes) expect(await node.call('DBSIZE')).toBe(0);
  }, 60_000);

  it.each([0, 3])(
    'stores each record in database %d of the node that has its slot',
    async (db) => {
      const { cluster, open } = await start(16);
      const store = open({ redisOptions: { db } });
      await store.open();
      const begins = Array.from({ length: 30 }, () => beginCommand({ timeoutMs: 5_000 }));
      for (const begin of begins) {
        const reply = await store.begin(begin);
        if (reply.kind !== 'acquired') throw new Error(`The begin returned ${reply.kind}.`);
        expect(await store.complete(leaseOf(begin, reply.fence), completeCommand())).toEqual({
          kind: 'ok',
        });
      }
      let keys = 0;
      for (const node of cluster.nodes) {
        const keyspace = String(await node.call('INFO', 'keyspace'));
        expect(keyspace).toContain(`db${db}:`);
        keys += Number(/keys=(\d+)/.exec(keyspace)?.[1]);
      }
      expect(keys).toBe(begins.length);
    },
    60_000,
  );
});
