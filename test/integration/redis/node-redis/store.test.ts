import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterAll, describe, expect, it } from '@jest/globals';
import { nodeRedisStore, type NodeRedisClient } from 'nestjs-idempotency/node-redis';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { createClient, createClientPool, createCluster, createSentinel } from 'redis';
import {
  nodeRedisLink,
  openNodeRedis,
  ownNodeRedisLink,
  RedisIdempotencyStore,
} from '../../../support/internals/redis.js';
import { afterTest } from '../../../support/jest/after-test.js';
import type { Fingerprint } from '../../../support/internals/core.js';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { clockedScripts, setClock, START_MS } from '../../../support/redis/scripts.js';
import { SentCommands } from '../../../support/redis/sent-commands.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { useRedisClient } from '../../../support/redis/use-redis.js';
import { TcpRelay } from '../../../support/servers/tcp-relay.js';
import { useServer } from '../../../support/servers/use-server.js';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';
import { until } from '../../../support/waiting/until.js';

/** Its own: no file that counts commands may see connections which a client opens late. */
const redis = useServer(startRedis);
const admin = useRedisClient(redis);
const cluster = useServer(() => RedisCluster.start());
const opened: { destroy(): void }[] = [];
afterAll(() => {
  for (const client of opened) client.destroy();
});

async function connected<Client extends { connect(): Promise<unknown>; destroy(): void }>(
  client: Client & { on(event: 'error', listener: () => void): unknown },
): Promise<Client> {
  client.on('error', () => undefined);
  await client.connect();
  opened.push(client);
  return client;
}
const clusterOf = (options = {}) =>
  connected(
    createCluster({ rootNodes: cluster.addresses.map((socket) => ({ socket })), ...options }),
  );

describeStoreConformance(
  { describe, it },
  {
    name: 'RedisIdempotencyStore by node-redis',
    create: async () => {
      let now = START_MS;
      const set = async (ms: number) => {
        now = ms;
        await setClock(admin, now * 1_000 + 517);
      };
      await set(now);
      const client = await connected(createClient({ url: redis.url }));
      const link = () => nodeRedisLink(client);
      const store = new RedisIdempotencyStore({ link, scripts: clockedScripts });
      const clock = { now: () => now, step: (ms: number) => set(now + ms) };
      return { store, clock, dispose: () => store.close() };
    },
  },
);

describeStoreConformance(
  { describe, it },
  {
    name: 'RedisIdempotencyStore by a cluster of node-redis',
    hasSteppableClock: false,
    create: async () => {
      const store = nodeRedisStore({ client: await clusterOf() });
      return { store, dispose: () => store.close() };
    },
  },
);

describe('nodeRedisStore', () => {
  it.each([
    [
      'one of createSentinel',
      () => createSentinel({ name: 'x', sentinelRootNodes: [] }),
      'Sentinel',
    ],
    ['a pool', () => createClientPool({}), 'a pool of createClientPool is none'],
    ['no client', () => ({}), 'createClient or createCluster'],
  ])('stops the start with a client that is %s', async (_, open, text) => {
    const create = async () => nodeRedisStore({ client: open() as unknown as NodeRedisClient });
    await expect(create()).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringMatching(new RegExp(`^nodeRedisStore: .*${text}`)),
    });
  });

  it('names itself where an option is invalid', () => {
    expect(() => nodeRedisStore({ url: redis.url, keyPrefix: '{' })).toThrow('nodeRedisStore');
  });

  it('says so of a client that is not open', async () => {
    const store = nodeRedisStore({ client: createClient({ url: redis.url }) });
    afterTest(() => store.close());
    expect(await store.open()).toEqual([
      expect.objectContaining({
        code: 'redis_unreachable',
        message: expect.stringContaining('await its connect()'),
      }),
    ]);
  });

  it('shows nothing of a URL that redis rejects', async () => {
    const store = nodeRedisStore({ url: 'redis://user:secret@127.0.0.1:1/x' });
    await expect(store.open()).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.not.stringContaining('secret'),
    });
  });

  it.each([
    ['a database that the server lacks', (url: string) => `${url}/99`, 'DB index is out of range'],
    [
      'a password that the server lacks',
      (url: string) => url.replace('//', '//nobody:x@'),
      'WRONGPASS',
    ],
  ])('stops the start with %s', async (_, change, text) => {
    const store = nodeRedisStore({ url: change(redis.url), onConnectionError: () => undefined });
    afterTest(() => store.close());
    await expect(store.open()).rejects.toMatchObject({
      code: 'idempotency_store_misconfigured',
      message: expect.stringContaining(text),
    });
  });

  it('replaces a connection of its own that stalls, and reports one outage', async () => {
    const relay = await TcpRelay.start(redis.port);
    const errors: Error[] = [];
    const store = nodeRedisStore({
      url: relay.through(redis.url),
      onConnectionError: (error) => errors.push(error),
    });
    afterTest(async () => {
      await store.close();
      await relay.stop();
    });
    await store.begin(beginCommand());
    relay.stallDetector();
    await expect(store.begin(beginCommand({ timeoutMs: 100 }))).rejects.toMatchObject({
      code: 'idempotency_store_outcome_unknown',
    });
    await until(async () => {
      const begin = store.begin(beginCommand({ timeoutMs: 500 }));
      return (await begin.catch(() => undefined))?.kind === 'acquired';
    }, 10_000);
    expect(relay.connections).toBe(2);
  });

  it('has one connection to a server that accepts and never replies, and none once it is closed', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    afterTest(() => void silent.close());
    const open = new Set<Socket>();
    let most = 0;
    let connections = 0;
    silent.on('connection', (socket) => {
      open.add(socket);
      connections += 1;
      most = Math.max(most, open.size);
      socket.on('error', () => undefined).on('close', () => open.delete(socket));
      socket.resume();
    });
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const opened = await openNodeRedis({
      url: `redis://127.0.0.1:${port}`,
      onConnectionError: () => undefined,
    });
    const link = ownNodeRedisLink({ ...opened, stallTimeoutMs: 50 });
    await until(() => connections > 4, 10_000);
    expect(most).toBe(1);
    await until(() => open.size === 1, 10_000);
    await link.close();
    await until(() => open.size === 0);
    const atClose = connections;
    // As long as it took to replace two.
    await setTimeout(1_000);
    expect(connections).toBe(atClose);
  });

  it('leaves a server that has become a replica', async () => {
    const [node, primary] = await Promise.all([RedisNode.start(), RedisNode.start()]);
    afterTest(() => Promise.all([node.stop(), primary.stop()]));
    const relay = await TcpRelay.start(node.port);
    const store = nodeRedisStore({ url: `redis://127.0.0.1:${relay.port}` });
    afterTest(async () => {
      await store.close();
      await relay.stop();
    });
    await store.begin(beginCommand());
    await node.call('REPLICAOF', '127.0.0.1', primary.port);
    await store.begin(beginCommand({ timeoutMs: 100 })).catch(() => undefined);
    await until(() => relay.connections > 1);
    await node.call('REPLICAOF', 'NO', 'ONE');
    await until(async () => {
      const begin = store.begin(beginCommand({ timeoutMs: 500 }));
      return (await begin.catch(() => undefined))?.kind === 'acquired';
    });
  });

  it('sends nothing to a database that the application has selected later, with waitReplicas', async () => {
    const node = await RedisNode.start();
    afterTest(() => node.stop());
    const client = await connected(createClient({ url: `redis://127.0.0.1:${node.port}` }));
    await client.select(3);
    const store = nodeRedisStore({ client, waitReplicas: { count: 1, timeout: 50 } });
    afterTest(() => store.close());
    await expect(store.begin(beginCommand({ timeoutMs: 2_000 }))).rejects.toMatchObject({
      code: 'idempotency_store_misconfigured',
      message: expect.stringContaining('do not call select()'),
    });
    expect(await node.call('DBSIZE')).toBe(0);
  });

  it.each([
    { size: 200, first: ['evalsha', 'evalsha'], replay: ['evalsha'] },
    { size: 65_536, first: ['evalsha', 'set', 'evalsha'], replay: ['evalsha', 'get'] },
  ])('sends what is needed, for an outcome of $size bytes', async ({ size, first, replay }) => {
    const node = await RedisNode.start();
    afterTest(() => node.stop());
    const url = `redis://127.0.0.1:${node.port}`;
    const store = nodeRedisStore({ client: await connected(createClient({ url })) });
    const commands = await SentCommands.to({ url });
    afterTest(async () => {
      commands.stop();
      await store.close();
    });
    const run = async (begin = beginCommand()) => {
      const reply = await store.begin(begin);
      const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
      const outcome = { header: '{}', body: Buffer.alloc(size) };
      await store.complete(lease, completeCommand({ outcome }));
      return begin;
    };
    // The first call of each script also sends its text.
    await store.begin(await run());
    const done = beginCommand();
    expect(await commands.during(() => run(done))).toEqual(first);
    expect(await commands.during(() => store.begin(done))).toEqual(replay);
    const running = beginCommand();
    await store.begin(running);
    const other = { ...beginCommand(), recordKey: running.recordKey };
    expect(await commands.during(() => store.begin(other))).toEqual(['evalsha']);
    const mismatched = { ...other, fingerprint: 'another content' as Fingerprint };
    expect(await commands.during(() => store.begin(mismatched))).toEqual(['evalsha']);
  });

  it('waits for the replica of each shard of a cluster, also after the record has moved', async () => {
    const store = nodeRedisStore({
      client: await clusterOf(),
      waitReplicas: { count: 1, timeout: '2s' },
    });
    afterTest(() => store.close());
    for (let i = 0; i < 20; i += 1) {
      const begin = beginCommand({ timeoutMs: 10_000 });
      const reply = await store.begin(begin);
      const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
      if (i % 5 === 0) {
        const slot = await cluster.slotOf(`idem:1:${begin.recordKey}`);
        const from = await cluster.primaryOf(slot);
        const to = (await cluster.primaries()).find((node) => node !== from)!;
        await cluster.startMigration(slot, from, to);
        await cluster.moveKeys(slot, from, to, 100);
        await cluster.finishMigration(slot, from, to);
      }
      const command = completeCommand({ timeoutMs: 10_000 });
      expect(await store.complete(lease, command)).toEqual({ kind: 'ok' });
      expect(await store.complete(lease, command)).toEqual({ kind: 'already' });
    }
  });

  it('goes on after a failover of a cluster', async () => {
    const store = nodeRedisStore({ client: await clusterOf() });
    afterTest(() => store.close());
    const begin = beginCommand({ timeoutMs: 10_000 });
    const slot = await cluster.slotOf(`idem:1:${begin.recordKey}`);
    await cluster.failover(await cluster.primaryOf(slot));
    expect(await store.begin(begin)).toMatchObject({ kind: 'acquired' });
    await cluster.untilHealthy();
  }, 60_000);
});
