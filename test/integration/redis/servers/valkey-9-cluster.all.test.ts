import { expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { nodeRedisStore } from 'nestjs-idempotency/node-redis';
import { redisStore } from 'nestjs-idempotency/redis';
import { glideStore } from 'nestjs-idempotency/valkey-glide';
import { createCluster } from 'redis';
import { afterTest } from '../../../support/jest/after-test.js';
import { glideClusterClient } from '../../../support/redis/glide-clients.js';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import type { RedisNode } from '../../../support/redis/redis-node.js';
import type { Begin } from '../../../support/internals/core.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newToken,
} from '../../../support/stores/commands.js';
import { until } from '../../../support/waiting/until.js';
import { useUnpackedRedis } from './unpacked-redis.js';

// The newest that Debian has: clusters of Valkey 9 have numbered databases, and move slots whole.
const valkey = await useUnpackedRedis('Valkey', 'sid');

async function start(databases = 1): Promise<RedisCluster> {
  const args = ['--cluster-databases', String(databases)];
  const cluster = await RedisCluster.start({ replicas: 0, args });
  afterTest(() => cluster.stop());
  return cluster;
}

function byIoredis({ addresses }: RedisCluster, db = 0): IdempotencyStore {
  const client = new Cluster(addresses, { redisOptions: { db } });
  client.on('error', () => undefined);
  afterTest(() => client.disconnect());
  return redisStore({ client });
}

async function byNodeRedis({ addresses }: RedisCluster): Promise<IdempotencyStore> {
  const client = createCluster({ rootNodes: addresses.map((socket) => ({ socket })) });
  client.on('error', () => undefined);
  afterTest(() => client.destroy());
  await client.connect();
  return nodeRedisStore({ client });
}

async function byGlide({ addresses }: RedisCluster, databaseId = 0): Promise<IdempotencyStore> {
  const client = await glideClusterClient(addresses, { databaseId });
  afterTest(() => client.close());
  return glideStore({ client });
}

/** Begins a key twice at once, and completes it once. @returns the begin that has won. */
async function runOnce(store: IdempotencyStore): Promise<Begin> {
  const first = beginCommand({ timeoutMs: 10_000 });
  const rivals = [first, { ...first, token: newToken() }];
  const replies = await Promise.all(rivals.map((begin) => store.begin(begin)));
  const won = rivals.flatMap((begin, at) => {
    const reply = replies[at]!;
    // What it finds when it is sent again after a lost connection.
    const hasWon = reply.kind === 'acquired' || reply.kind === 'owned';
    return hasWon ? [{ begin, lease: leaseOf(begin, reply.fence) }] : [];
  });
  expect(won).toHaveLength(1);
  const [{ begin, lease }] = won as [(typeof won)[number]];
  const completed = await store.complete(lease, completeCommand({ timeoutMs: 10_000 }));
  expect(['ok', 'already']).toContain(completed.kind);
  return begin;
}

/** An eighth of all, of the first primary: so many keys that some are among them. */
const LAST_MOVED = 2_047;
const MOVES = 6;

/** Moves slots without a moment in which two nodes have them. */
async function moveWhole(from: RedisNode, to: RedisNode, first: number, last: number) {
  const id = String(await to.call('CLUSTER', 'MYID'));
  await from.call('CLUSTER', 'MIGRATESLOTS', 'SLOTSRANGE', first, last, 'NODE', id);
  await until(async () => {
    const jobs = JSON.stringify(await from.call('CLUSTER', 'GETSLOTMIGRATIONS'));
    if (jobs.includes('"failed"')) throw new Error(jobs);
    // The newest stands first.
    return /"state","(\w+)"/.exec(jobs)?.[1] === 'success';
  }, 20_000);
}

valkey.describe(`A cluster of ${valkey.title}`, () => {
  it('stops the start where it lacks the database, and no node gets a record', async () => {
    const cluster = await start();
    const store = byIoredis(cluster, 3);
    afterTest(() => store.close());
    await expect(store.open()).rejects.toMatchObject({
      code: 'idempotency_store_misconfigured',
      message: expect.stringContaining('Cannot select database 3'),
    });
    for (const node of cluster.nodes) expect(await node.call('DBSIZE')).toBe(0);
  }, 60_000);

  it.each([
    ['ioredis', 0, byIoredis],
    ['ioredis', 3, byIoredis],
    ['GLIDE', 3, byGlide],
  ] as const)(
    'stores each record by %s in database %d of the node that has its slot',
    async (_, db, open) => {
      const cluster = await start(16);
      const store = await open(cluster, db);
      afterTest(() => store.close());
      await store.open();
      const records = 30;
      for (let i = 0; i < records; i += 1) await runOnce(store);
      let keys = 0;
      for (const node of cluster.nodes) {
        const keyspace = String(await node.call('INFO', 'keyspace'));
        expect(keyspace).toContain(`db${db}:`);
        keys += Number(/keys=(\d+)/.exec(keyspace)?.[1]);
      }
      expect(keys).toBe(records);
    },
    60_000,
  );

  it.each([
    ['ioredis', byIoredis],
    ['node-redis', byNodeRedis],
    ['GLIDE', byGlide],
  ] as const)(
    'runs each key once while its slots move whole, under load by %s',
    async (_, open) => {
      const cluster = await start();
      const store = await open(cluster);
      afterTest(() => store.close());
      const one = await cluster.primaryOf(0);
      const other = (await cluster.primaries()).find((node) => node !== one)!;
      let isMoving = true;
      const begins: Begin[] = [];
      const workers = Array.from({ length: 16 }, async () => {
        while (isMoving) begins.push(await runOnce(store));
      });
      const move = async () => {
        for (let moved = 0; moved < MOVES; moved += 1) {
          const [from, to] = moved % 2 === 0 ? [one, other] : [other, one];
          await moveWhole(from, to, 0, LAST_MOVED);
          await until(async () => (await cluster.primaryOf(LAST_MOVED)) === to);
        }
      };
      await Promise.all([...workers, move().finally(() => (isMoving = false))]);
      expect(begins.length).toBeGreaterThan(100);
      const again = begins.map((begin) => store.begin({ ...begin, token: newToken() }));
      const kinds = new Set((await Promise.all(again)).map(({ kind }) => kind));
      expect([...kinds]).toEqual(['completed']);
    },
    120_000,
  );
});
