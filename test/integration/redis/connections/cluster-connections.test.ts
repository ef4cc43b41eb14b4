import { afterAll, describe, expect, it } from '@jest/globals';
import { Cluster, type ClusterOptions } from 'ioredis';
import type { BeginReply, Lease } from 'nestjs-idempotency/store';
import {
  redisStore,
  type RedisIdempotencyStore,
  type WaitReplicas,
} from 'nestjs-idempotency/redis';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import { isTestAll } from '../../../support/jest/test-all.js';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';
import { closeAfterTest } from '../support/fixture.js';
import { until } from '../../../support/waiting/until.js';
import { useServer } from '../../../support/servers/use-server.js';

const TIMEOUT_MS = 10_000;

const nodes = useServer(() => RedisCluster.start());
const client = useServer(
  () => new Cluster(nodes.addresses),
  (used) => used.disconnect(),
);
const stores: RedisIdempotencyStore[] = [];

afterAll(async () => {
  for (const store of stores) await store.close();
});

interface StoreChanges {
  readonly client?: Cluster;
  readonly waitReplicas?: WaitReplicas;
}

function newStore(changes: StoreChanges = {}) {
  const store = redisStore({ client, ...changes });
  stores.push(store);
  return store;
}

async function acquire(store: RedisIdempotencyStore): Promise<Lease> {
  const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
  const reply = await store.begin(begin);
  return leaseOf(begin, (reply as BeginReply & { fence: number }).fence);
}

/** Moves the slot of a record to another shard. */
async function move({ recordKey }: Lease): Promise<void> {
  const slot = await nodes.slotOf(`idem:1:${recordKey}`);
  const from = await nodes.primaryOf(slot);
  const to = (await nodes.primaries()).find((node) => node !== from)!;
  await nodes.startMigration(slot, from, to);
  await nodes.moveKeys(slot, from, to, 100);
  await nodes.finishMigration(slot, from, to);
}

describe('With waitReplicas, on a cluster', () => {
  const waitReplicas: WaitReplicas = { count: 1, timeout: '2s' };

  it('each step waits for the replica of its own shard', async () => {
    const store = newStore({ waitReplicas });
    for (let i = 0; i < 30; i += 1) {
      const lease = await acquire(store);
      const command = completeCommand({ timeoutMs: TIMEOUT_MS });
      expect(await store.complete(lease, command)).toEqual({ kind: 'ok' });
    }
  });

  it('a record that moved to another shard is found and replicated there', async () => {
    const store = newStore({ waitReplicas });
    const lease = await acquire(store);
    await move(lease);
    const command = completeCommand({ timeoutMs: TIMEOUT_MS });
    expect(await store.complete(lease, command)).toEqual({ kind: 'ok' });
    expect(await store.complete(lease, command)).toEqual({ kind: 'already' });
  });

  it('a shard without enough replicas rejects the begin', async () => {
    const store = newStore({ waitReplicas: { count: 2, timeout: 50 } });
    await expect(acquire(store)).rejects.toThrow('1 of the 2 replicas');
  });
});

type BlindOptions = Omit<ClusterOptions, 'redisOptions' | 'replyMapping'>;

/** With numbers as strings, ioredis knows only some of the slots of a cluster. */
async function halfBlind(options: BlindOptions = {}): Promise<Cluster> {
  const settings = { redisOptions: { stringNumbers: true }, ...options };
  const blind = closeAfterTest(disposable(new Cluster(nodes.addresses, settings)));
  await until(() => blind.status === 'ready');
  expect(blind.slots.filter(Boolean).length).toBeLessThan(16_384);
  return blind;
}

function disposable(cluster: Cluster) {
  return Object.assign(cluster, { stop: async () => cluster.disconnect() });
}

/** Maps each primary to a proxy, the only way to reach it. */
async function natMap(): Promise<Record<string, { host: string; port: number }>> {
  const entries = (await nodes.primaries()).map(async ({ port }) => {
    const proxy = closeAfterTest(await RedisProxy.start(port));
    return [`127.0.0.1:${String(port)}`, { host: '127.0.0.1', port: proxy.port }] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** The variants that `npm test` runs; `npm run test:all` runs all. */
const PUSHED = new Set(['plainly', 'with auto-pipelining', 'with waitReplicas, behind a NAT']);

describe('A cluster of which ioredis knows only some slots', () => {
  const waitReplicas: WaitReplicas = { count: 1, timeout: '2s' };
  const variants: [string, () => BlindOptions | Promise<BlindOptions>, StoreChanges][] = [
    ['plainly', () => ({}), {}],
    ['with auto-pipelining', () => ({ enableAutoPipelining: true }), {}],
    ['reading from replicas', () => ({ scaleReads: 'slave' }), {}],
    ['with a prefix', () => ({ keyPrefix: 'app:' }), {}],
    ['behind a NAT', async () => ({ natMap: await natMap() }), {}],
    ['with waitReplicas', () => ({}), { waitReplicas }],
    ['with waitReplicas, behind a NAT', async () => ({ natMap: await natMap() }), { waitReplicas }],
  ];

  const chosen = variants.filter(([name]) => isTestAll || PUSHED.has(name));

  it.each(chosen)('stores every record: %s', async (_, options, changes) => {
    const blind = await halfBlind(await options());
    const store = newStore({ client: blind, ...changes });
    const before = await keys();
    const begins = Array.from({ length: 200 }, () => beginCommand({ timeoutMs: TIMEOUT_MS }));
    const replies = await Promise.all(begins.map((begin) => store.begin(begin)));
    expect(new Set(replies.map(({ kind }) => kind))).toEqual(new Set(['acquired']));
    expect((await keys()) - before).toBe(begins.length);
    const again = await Promise.all(begins.map((begin) => store.begin(begin)));
    expect(new Set(again.map(({ kind }) => kind))).toEqual(new Set(['owned']));
  });

  it('follows a record that moves to another shard', async () => {
    const store = newStore({ client: await halfBlind() });
    for (let i = 0; i < 5; i += 1) {
      const lease = await acquire(store);
      await move(lease);
      const command = completeCommand({ timeoutMs: TIMEOUT_MS });
      expect(await store.complete(lease, command)).toEqual({ kind: 'ok' });
    }
  });
});

async function keys(): Promise<number> {
  const sizes = (await nodes.primaries()).map((node) => node.call('DBSIZE'));
  return (await Promise.all(sizes)).map(Number).reduce((sum, size) => sum + size, 0);
}

describe('A record that is watched, on a cluster', () => {
  it('is notified by its own shard, also after it moved', async () => {
    const [worker, other] = [newStore(), newStore()];
    const isReportedTo = async (isMoved: boolean) => {
      const lease = await acquire(worker);
      let reported = 0;
      const count = () => void (reported += 1);
      const watch = () => other.watch(lease.recordKey, count, { timeoutMs: TIMEOUT_MS });
      let stop = await watch();
      if (isMoved) {
        stop?.();
        await move(lease);
        // A redirected subscription fails, and the client learns the new shard of the slot.
        await until(async () => (stop = await watch()) !== undefined);
      }
      expect(stop).toBeDefined();
      await worker.complete(lease, completeCommand({ timeoutMs: TIMEOUT_MS, notify: true }));
      const isReported = await until(() => reported > 0, 2_000).then(
        () => true,
        () => false,
      );
      expect(reported).toBeLessThanOrEqual(1);
      stop?.();
      return isReported;
    };
    for (let i = 0; i < 12; i += 1) {
      // A client that learns of moved slots resubscribes and loses messages meanwhile: the next record is tried then.
      await until(() => isReportedTo(i >= 10));
    }
    for (const node of nodes.nodes) {
      await until(async () => (await shardChannels(node)) === 0);
      expect(String(await node.call('INFO', 'commandstats'))).not.toContain('cmdstat_publish');
    }
  });
});

async function shardChannels(node: RedisCluster['nodes'][number]): Promise<number> {
  return ((await node.call('PUBSUB', 'SHARDCHANNELS')) as unknown[]).length;
}
