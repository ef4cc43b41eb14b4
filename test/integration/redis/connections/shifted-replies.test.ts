import { beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, type Redis, type RedisOptions } from 'ioredis';
import { nodeRedisStore } from 'nestjs-idempotency/node-redis';
import { redisStore, type RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { glideStore } from 'nestjs-idempotency/valkey-glide';
import { createClient, createCluster } from 'redis';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import { glideClient } from '../../../support/redis/glide-clients.js';
import { follow } from '../../../support/redis/redis-sentinel.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import { START_HOOK_MS } from '../../../support/servers/start-server.js';
import { isTestAll } from '../../../support/jest/test-all.js';
import { useServer } from '../../../support/servers/use-server.js';
import { ACQUIRED, startScriptedServer } from '../support/canned-server.js';
import { beginCommand } from '../../../support/stores/commands.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';
import {
  believing,
  believingGlide,
  believingNodeRedis,
  CROWDS,
  SHIFTS,
  underShiftedReplies,
  untilInStep,
} from '../support/shifted-replies.js';
import { until } from '../../../support/waiting/until.js';

const NAME = 'payments';
const WAIT_REPLICAS = { count: 1, timeout: 1_000 };

const single = useServer(() => RedisNode.start());
const replica = useServer(() => RedisNode.start());
const sentinel = useServer(() => RedisNode.start({ args: ['--sentinel'], hasConfigFile: true }));
const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));

beforeAll(async () => {
  await follow(replica, single);
  await sentinel.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', single.port, 1);
}, START_HOOK_MS);

async function proxied(node: RedisNode): Promise<RedisProxy> {
  return closeAfterTest(await RedisProxy.start(node.port));
}

interface Reached {
  readonly proxies: RedisProxy[];
  readonly store: RedisIdempotencyStore;
}

/** @param isBelieving - the client accepts any reply. */
type Reach = (isBelieving?: boolean) => Promise<Reached>;

/** The planted mistake, if it is asked for. */
function changed<Client extends Redis | Cluster>(client: Client, isBelieving = false): Client {
  return isBelieving ? believing(client) : client;
}

function singleWith(options: Omit<RedisOptions, 'replyMapping'>, waits = {}): Reach {
  return async (isBelieving) => {
    const proxy = await proxied(single);
    const client = changed(userClient(proxy.url, options), isBelieving);
    return { proxies: [proxy], store: redisStore({ client, ...waits }) };
  };
}

const throughSentinel: Reach = async (isBelieving) => {
  const proxy = await proxied(single);
  const natMap = { [`127.0.0.1:${String(single.port)}`]: { host: '127.0.0.1', port: proxy.port } };
  const sentinels = [sentinel.address];
  const client = changed(userClient('', { sentinels, name: NAME, natMap }), isBelieving);
  await until(() => client.status === 'ready');
  return { proxies: [proxy], store: redisStore({ client }) };
};

function clusterWith(options: object): Reach {
  return async (isBelieving) => {
    const proxies = await Promise.all(cluster.nodes.map(proxied));
    const natMap = Object.fromEntries(
      cluster.nodes.map((node, i) => [
        `127.0.0.1:${String(node.port)}`,
        { host: '127.0.0.1', port: proxies[i]!.port },
      ]),
    );
    const client = changed(new Cluster(cluster.addresses, { natMap, ...options }), isBelieving);
    client.on('error', () => undefined);
    closeAfterTest({ stop: async () => client.disconnect() });
    await until(() => client.status === 'ready');
    return { proxies, store: redisStore({ client }) };
  };
}

const byNodeRedis =
  (RESP: 2 | 3, waits = {}): Reach =>
  async (isBelieving = false) => {
    const proxy = await proxied(single);
    const client = createClient({ url: proxy.url, RESP });
    await connected(client);
    if (isBelieving) believingNodeRedis(client);
    return { proxies: [proxy], store: nodeRedisStore({ client, ...waits }) };
  };

const byClusterOfNodeRedis: Reach = async (isBelieving = false) => {
  const proxies = await Promise.all(cluster.nodes.map(proxied));
  const nodeAddressMap = Object.fromEntries(
    cluster.nodes.map((node, i) => [
      `127.0.0.1:${String(node.port)}`,
      { host: '127.0.0.1', port: proxies[i]!.port },
    ]),
  );
  const rootNodes = proxies.map(({ url }) => ({ url }));
  const client = createCluster({ rootNodes, nodeAddressMap });
  await connected(client);
  if (isBelieving) believingNodeRedis(client);
  return { proxies, store: nodeRedisStore({ client }) };
};

/** Its cluster client knows servers by the addresses that they announce, not by those of proxies. */
const byGlide: Reach = async (isBelieving = false) => {
  const proxy = await proxied(single);
  const client = await glideClient(proxy.port, { requestTimeout: 1_000 });
  closeAfterTest({ stop: async () => client.close() });
  if (isBelieving) believingGlide(client);
  return { proxies: [proxy], store: glideStore({ client }) };
};

async function connected(client: {
  on(event: 'error', listener: () => void): unknown;
  connect(): Promise<unknown>;
  destroy(): void;
}): Promise<void> {
  client.on('error', () => undefined);
  await client.connect();
  closeAfterTest({ stop: async () => client.destroy() });
}

const clients: [string, Reach][] = [
  ['of node-redis, by RESP 2', byNodeRedis(2)],
  ['of node-redis, by RESP 3', byNodeRedis(3)],
  ['of node-redis, to a cluster', byClusterOfNodeRedis],
  ['of GLIDE', byGlide],
  ['of the user', singleWith({ enableAutoPipelining: false })],
  [
    'of the user, with auto-pipelining',
    // ioredis returns a pipeline only when it is complete: with one reply less, it would wait for ever.
    singleWith({ enableAutoPipelining: true, socketTimeout: 1_000 }),
  ],
  ['of the user, by Sentinel', throughSentinel],
  ['of the user, to a cluster', clusterWith({})],
  ['of the user, to a cluster, with auto-pipelining', clusterWith({ enableAutoPipelining: true })],
];

const own: [string, Reach] = [
  'of its own',
  async () => {
    const proxy = await proxied(single);
    return { proxies: [proxy], store: ownStore(proxy.url) };
  },
];

const replicated: [string, Reach] = [
  'of its own for waitReplicas',
  singleWith({ enableAutoPipelining: false }, { waitReplicas: WAIT_REPLICAS }),
];

/** Each shift with one kind of crowd; `npm run test:all` runs the other pairs. */
const shifted = SHIFTS.map((shift, i) => [shift, CROWDS[isTestAll ? 1 - i : i]!] as const);

const ownOfNodeRedis: [string, Reach] = [
  'of its own, by node-redis',
  async () => {
    const proxy = await proxied(single);
    const store = nodeRedisStore({ url: proxy.url, onConnectionError: () => undefined });
    return { proxies: [proxy], store };
  },
];

const replicatedByNodeRedis: [string, Reach] = [
  'of its own for waitReplicas, by node-redis',
  byNodeRedis(3, { waitReplicas: WAIT_REPLICAS }),
];

describe.each([own, ownOfNodeRedis, ...clients, replicated, replicatedByNodeRedis])(
  'A store with a connection %s',
  (_, reach) => {
    it.each(shifted)(
      'on which a relay begins to %s returns no reply of another request: %s',
      async (shift, crowd) => {
        const { store, proxies } = await reach();
        closeAfterTest({ stop: () => store.close() });
        const { foreign, codes, reported } = await underShiftedReplies({
          store,
          proxies,
          shift,
          crowd,
        });
        expect(foreign).toEqual([]);
        expect(codes).toContain('idempotency_store_reply_mismatched');
        // Once for each connection, however many replies arrived with the first one.
        expect(reported).toBeGreaterThan(0);
        expect(reported).toBeLessThanOrEqual(proxies.length);
        await untilInStep(store);
      },
    );
  },
);

describe('On a server without the scripts', () => {
  const withoutScripts = async () => {
    await single.call('SCRIPT', 'FLUSH');
    const proxy = await proxied(single);
    const client = userClient(proxy.url);
    await until(() => client.status === 'ready');
    const store = redisStore({ client });
    let reported = 0;
    await store.open({ replyMismatched: () => (reported += 1), warned: () => undefined });
    return { proxy, client, store, reported: () => reported };
  };

  it('a connection is replaced when each reply is an error and goes to the previous command', async () => {
    const { proxy, client, store, reported } = await withoutScripts();
    const { hit } = proxy.aim('PING', 'skip the reply');
    const ping = client.ping();
    await hit;
    // Its error reply goes to the PING.
    const first = store.begin(beginCommand({ timeoutMs: 100 }));
    await expect(first).rejects.toMatchObject({ code: 'idempotency_store_outcome_unknown' });
    await expect(ping).rejects.toThrow('NOSCRIPT');
    await untilInStep(store);
    expect(reported()).toBe(1);
    expect(proxy.connections).toBe(2);
  });

  it('a connection is replaced when only commands of the application get wrong replies', async () => {
    const { proxy, client, store, reported } = await withoutScripts();
    const skipped = proxy.aim('PING', 'skip the reply');
    const probe = proxy.aim('EVAL', { replyDelayMs: 0 });
    const ping = client.ping();
    await skipped.hit;
    const first = store.begin(beginCommand());
    await expect(ping).rejects.toThrow('NOSCRIPT');
    const unknown = client.call('UNKNOWN');
    await expect(first).rejects.toMatchObject({ code: 'idempotency_store_misconfigured' });
    await probe.hit;
    // It gets the reply to the probe; the probe gets that of the second PING.
    expect(await unknown).toEqual(expect.any(String));
    await Promise.allSettled([client.ping()]);
    await untilInStep(store);
    expect(reported()).toBe(1);
    expect(proxy.connections).toBe(2);
  });

  it('a connection stays when the replies are late but in step', async () => {
    const { proxy, store, reported } = await withoutScripts();
    const probe = proxy.aim('EVAL', { replyDelayMs: 0 });
    // The second begin sends the script's text, after the error reply to its SHA-1.
    proxy.aim('begin', { replyDelayMs: 1_500 }, { nth: 2 });
    const { kind } = await store.begin(beginCommand({ timeoutMs: 10_000 }));
    expect(kind).toBe('acquired');
    await store.begin(beginCommand({ timeoutMs: 10_000 }));
    expect(probe.hits).toBe(1);
    expect(reported()).toBe(0);
    expect(proxy.connections).toBe(1);
  });
});

describe.each(['of the user', 'of its own'])('An error reply on a connection %s', (whose) => {
  const oom = "-OOM command not allowed when used memory > 'maxmemory'.";

  /** The codes of three concurrent begins. */
  async function codesOf(...replies: (string | undefined)[]): Promise<unknown[]> {
    const server = closeAfterTest(await startScriptedServer(replies));
    const settings = { protocol: 2, maxRetriesPerRequest: 0, retryStrategy: () => null } as const;
    const store =
      whose === 'of its own'
        ? ownStore(server.url, { connection: settings })
        : redisStore({ client: userClient(server.url, settings) });
    await store.open();
    const begins = [1, 2, 3].map(() => store.begin(beginCommand({ timeoutMs: 500 })));
    const results = await Promise.allSettled(begins);
    return results.map((result) =>
      result.status === 'fulfilled' ? result.value.kind : (result.reason as { code: unknown }).code,
    );
  }

  it('means that nothing was executed when the replies stay in step', async () => {
    expect(await codesOf(oom, ACQUIRED, ACQUIRED)).toEqual([
      'idempotency_store_unavailable',
      'acquired',
      'acquired',
    ]);
    expect(await codesOf(oom, oom, oom)).toEqual(Array(3).fill('idempotency_store_unavailable'));
  });

  it('leaves the outcome unknown when the replies are out of step: the command may have been executed', async () => {
    const [first, second] = await codesOf(undefined, oom, ACQUIRED);
    expect(first).toBe('idempotency_store_outcome_unknown');
    expect(second).toBe('idempotency_store_reply_mismatched');
  });

  it('leaves the outcome unknown when one reply too many has arrived', async () => {
    expect(await codesOf(`${oom}\r\n${ACQUIRED}`, ACQUIRED, undefined)).toEqual([
      'idempotency_store_outcome_unknown',
      ...Array(2).fill('idempotency_store_reply_mismatched'),
    ]);
  });

  it('leaves the outcome unknown when a reply is still pending at the timeout', async () => {
    const [first] = await codesOf(undefined, oom, undefined);
    expect(first).toBe('idempotency_store_outcome_unknown');
  });
});

// Verifies the test with each client.
if (isTestAll) {
  describe('The test of shifted replies', () => {
    describe.each(clients)('detects a client %s', (_, reach) => {
      it.each(CROWDS)('that accepts any reply: %s', async (crowd) => {
        const { store, proxies } = await reach(true);
        const seen = await underShiftedReplies({
          store,
          proxies,
          shift: 'repeat the reply',
          crowd,
        });
        expect(seen.foreign).not.toEqual([]);
      });
    });
  });
}
