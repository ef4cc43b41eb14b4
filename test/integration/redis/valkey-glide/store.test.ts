import { afterAll, describe, expect, it } from '@jest/globals';
import { glideStore, type ValkeyGlideClient } from 'nestjs-idempotency/valkey-glide';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { Redis } from 'ioredis';
import { glideLink, RedisIdempotencyStore } from '../../../support/internals/redis.js';
import type { Fingerprint } from '../../../support/internals/core.js';
import { afterTest } from '../../../support/jest/after-test.js';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { clockedScripts, setClock, START_MS } from '../../../support/redis/scripts.js';
import { SentCommands } from '../../../support/redis/sent-commands.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { useRedisClient } from '../../../support/redis/use-redis.js';
import { useServer } from '../../../support/servers/use-server.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newRecordKey,
} from '../../../support/stores/commands.js';
import {
  glideClient,
  glideClusterClient,
  type GlideOfTest,
} from '../../../support/redis/glide-clients.js';

/** Its own: no file that counts commands may see connections which GLIDE opens late. */
const redis = useServer(startRedis);
const admin = useRedisClient(redis);
const cluster = useServer(() => RedisCluster.start());
const opened: GlideOfTest[] = [];
afterAll(() => {
  for (const client of opened) client.close();
});

async function kept<Client extends GlideOfTest>(opening: Promise<Client>): Promise<Client> {
  const client = await opening;
  opened.push(client);
  return client;
}

async function ownNode(): Promise<RedisNode> {
  const node = await RedisNode.start();
  afterTest(() => node.stop());
  return node;
}

describeStoreConformance(
  { describe, it },
  {
    name: 'RedisIdempotencyStore by GLIDE',
    create: async () => {
      let now = START_MS;
      const set = async (ms: number) => {
        now = ms;
        await setClock(admin, now * 1_000 + 517);
      };
      await set(now);
      const client = await kept(glideClient(redis.port));
      const store = new RedisIdempotencyStore({
        link: () => glideLink(client),
        push: false,
        scripts: clockedScripts,
      });
      const clock = { now: () => now, step: (ms: number) => set(now + ms) };
      return { store, clock, dispose: () => store.close() };
    },
  },
);

describeStoreConformance(
  { describe, it },
  {
    name: 'RedisIdempotencyStore by a cluster client of GLIDE',
    hasSteppableClock: false,
    create: async () => {
      const store = glideStore({ client: await kept(glideClusterClient(cluster.addresses)) });
      return { store, dispose: () => store.close() };
    },
  },
);

describe('glideStore', () => {
  it.each([
    ['no client of GLIDE', async () => new Redis({ lazyConnect: true }), {}, 'redisStore'],
    ['no client', async () => undefined, {}, 'GlideClient or a GlideClusterClient'],
    ['push', () => kept(glideClient(redis.port)), { push: true }, 'duplicates that wait poll'],
    [
      'waitReplicas',
      () => kept(glideClient(redis.port)),
      { waitReplicas: { count: 1, timeout: '1s' } },
      'nodeRedisStore',
    ],
    ['a URL', () => kept(glideClient(redis.port)), { url: 'redis://127.0.0.1' }, 'createClient'],
    ['another prefix', () => kept(glideClient(redis.port)), { keyPrefix: '{' }, 'keyPrefix'],
    [
      'a journal on a cluster',
      () => kept(glideClusterClient(cluster.addresses)),
      { journal: { service: 'shop', version: '1' } },
      'single server',
    ],
  ])('stops the start with %s', async (_, open, options, text) => {
    const client = (await open()) as unknown as ValkeyGlideClient;
    const create = async () => glideStore({ client, ...options } as never);
    await expect(create()).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringContaining(text),
    });
  });

  it.each([
    ['one server', (): Promise<GlideOfTest> => glideClient(redis.port)],
    ['a Cluster', (): Promise<GlideOfTest> => glideClusterClient(cluster.addresses)],
  ])('starts without a warning but those of the server, on %s', async (_, open) => {
    const store = glideStore({ client: await kept(open()) });
    afterTest(() => store.close());
    const warnings = await store.open();
    expect(warnings.map(({ code }) => code)).toEqual(['redis_not_durable']);
  });

  it.each([
    { size: 200, first: ['evalsha', 'evalsha'], replay: ['evalsha'] },
    { size: 65_536, first: ['evalsha', 'set', 'evalsha'], replay: ['evalsha', 'get'] },
  ])('sends what is needed, for an outcome of $size bytes', async ({ size, first, replay }) => {
    const node = await ownNode();
    const store = glideStore({ client: await kept(glideClient(node.port)) });
    const commands = await SentCommands.to({ url: `redis://127.0.0.1:${node.port}` });
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

  it('keeps the journal, on one server', async () => {
    const node = await ownNode();
    const client = await kept(glideClient(node.port));
    const store = glideStore({ client, journal: { service: 'shop', version: '1' } });
    afterTest(() => store.close());
    await store.open();
    const begin = beginCommand();
    const reply = await store.begin(begin);
    const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
    await store.complete(lease, completeCommand());
    expect(await node.call('XLEN', 'idem:journal')).toBe(2);
    expect(store.missedEntries).toBe(0);
  });

  it('does not count as "not executed" what has timed out in GLIDE: the server executes it', async () => {
    const node = await ownNode();
    const proxy = await RedisProxy.start(node.port);
    afterTest(() => proxy.stop());
    const client = await kept(glideClient(proxy.port, { requestTimeout: 100 }));
    const store = glideStore({ client });
    afterTest(() => store.close());
    await store.begin(beginCommand());
    const recordKey = newRecordKey();
    proxy.aim('begin', { replyDelayMs: 1_000 });
    const first = beginCommand({ recordKey, timeoutMs: 115 });
    await expect(store.begin(first)).rejects.toMatchObject({
      code: 'idempotency_store_outcome_unknown',
      message: expect.stringContaining('timed out'),
    });
    expect(await node.call('EXISTS', `idem:1:${recordKey}`)).toBe(1);
    proxy.heal();
  });

  it('sends more at once than GLIDE takes, each once', async () => {
    const node = await ownNode();
    const client = await kept(glideClient(node.port, { inflightRequestsLimit: 10 }));
    const link = glideLink(client);
    const store = glideStore({ client });
    afterTest(() => store.close());
    await store.begin(beginCommand());
    const refused = new Set<string>();
    await Promise.all(
      Array.from({ length: 100 }, () =>
        client.customCommand(['PING']).catch((error: unknown) => {
          const { kind, cause } = link.failureOf(error);
          refused.add(`${kind}: ${cause}`);
        }),
      ),
    );
    expect([...refused]).toEqual([expect.stringMatching(/^not_executed: .*maximum inflight/)]);
    const begins = Array.from({ length: 100 }, () => beginCommand({ timeoutMs: 10_000 }));
    const replies = await Promise.all(begins.map((begin) => store.begin(begin)));
    expect(replies.map(({ kind }) => kind)).toEqual(begins.map(() => 'acquired'));
  });

  it('sends nothing by a client that is closed, and does not know the end of what was in flight', async () => {
    const node = await ownNode();
    const proxy = await RedisProxy.start(node.port);
    afterTest(() => proxy.stop());
    const client = await glideClient(proxy.port);
    const store = glideStore({ client });
    await store.begin(beginCommand());
    const { hit } = proxy.aim('begin', { replyDelayMs: 200 });
    const pending = store.begin(beginCommand());
    const ended = expect(pending).rejects.toMatchObject({
      code: 'idempotency_store_outcome_unknown',
      message: expect.stringContaining('is closed'),
    });
    await hit;
    client.close();
    await ended;
    await expect(store.begin(beginCommand())).rejects.toMatchObject({
      code: 'idempotency_store_unavailable',
      message: expect.stringContaining('is closed'),
    });
  });

  it('runs scripts for a user who may not run SCRIPT, whatever the server has', async () => {
    const node = await ownNode();
    await node.call(
      'ACL',
      ...['SETUSER', 'shop', 'on', '>pass', '~idem:*', '+@connection', '+eval', '+evalsha'],
      ...['+time', '+getrange', '+get', '+set', '+pexpireat', '+info', '-script'],
    );
    const credentials = { username: 'shop', password: 'pass' };
    const store = glideStore({ client: await kept(glideClient(node.port, { credentials })) });
    afterTest(() => store.close());
    await store.open();
    await node.call('SCRIPT', 'FLUSH');
    expect(await store.begin(beginCommand())).toMatchObject({ kind: 'acquired' });
  });

  it('runs each of 64 begins once while their slot moves', async () => {
    const client = await kept(glideClusterClient(cluster.addresses));
    const store = glideStore({ client, keyPrefix: 'moving' });
    afterTest(() => store.close());
    const tag = `{${newRecordKey()}}`;
    const begins = Array.from({ length: 64 }, (_, i) =>
      beginCommand({ recordKey: `${tag}${i}` as never, timeoutMs: 20_000 }),
    );
    await store.begin(begins[0]!);
    const slot = await cluster.slotOf(`moving:1:${begins[0]!.recordKey}`);
    const from = await cluster.primaryOf(slot);
    const to = (await cluster.primaries()).find((node) => node !== from)!;
    await cluster.startMigration(slot, from, to);
    const replies = await Promise.all(begins.map((begin) => store.begin(begin)));
    expect(replies.map(({ kind }) => kind)).toEqual(
      begins.map((_, i) => (i === 0 ? 'owned' : 'acquired')),
    );
    await cluster.moveKeys(slot, from, to, 1_000);
    await cluster.finishMigration(slot, from, to);
    const again = await Promise.all(begins.map((begin) => store.begin(begin)));
    const fenceOf = (reply: object) => ('fence' in reply ? reply.fence : undefined);
    expect(again).toEqual(
      replies.map((reply) => expect.objectContaining({ kind: 'owned', fence: fenceOf(reply) })),
    );
  });

  it('goes on after a failover of a cluster', async () => {
    const store = glideStore({
      client: await kept(glideClusterClient(cluster.addresses, { requestTimeout: 500 })),
    });
    afterTest(() => store.close());
    const begin = beginCommand({ timeoutMs: 20_000 });
    const slot = await cluster.slotOf(`idem:1:${begin.recordKey}`);
    await cluster.failover(await cluster.primaryOf(slot));
    expect(await store.begin(begin)).toMatchObject({ kind: 'acquired' });
    await cluster.untilHealthy();
  }, 60_000);
});
