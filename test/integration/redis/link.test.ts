import { describe, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import {
  ioredisLink,
  openConnection,
  ownLink,
  RedisIdempotencyStore,
} from '../../support/internals/redis.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { RedisSentinel } from '../../support/redis/redis-sentinel.js';
import { clockedScripts, setClock, START_MS } from '../../support/redis/scripts.js';
import { ToyLink } from '../../support/redis/toy-link.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { describeLink, moveSlot } from './support/describe-link.js';

const redis = useRedis();
const admin = useRedisClient(redis);
const sentinel = useServer(() => RedisSentinel.start());
const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));

const servers = () => [
  {
    port: redis.port,
    call: (command: string, ...args: (string | number)[]) => admin.call(command, ...args),
  },
];

/** By default, a client of ioredis sends again what had no reply. */
const SENT_ONCE = { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 };

/** Of an application, which closes it itself. */
function linkOf(client: Redis | Cluster) {
  client.on('error', () => undefined);
  const link = ioredisLink(client);
  const close = link.close.bind(link);
  return Object.assign(link, {
    close: async () => {
      await close();
      client.disconnect();
    },
  });
}

describeLink({
  name: 'of a client of the application',
  open: async () => linkOf(new Redis(redis.url, { keyPrefix: 'app:' })),
  openAt: async (port) => linkOf(new Redis({ port, ...SENT_ONCE })),
  servers,
});

describeLink({
  name: 'on a connection of the store',
  open: async () => ownLink(await openConnection({ url: redis.url })),
  openAt: async (port) => ownLink(await openConnection({ connection: { port } })),
  servers,
});

describeLink({
  name: 'by Sentinel',
  open: async () => linkOf(new Redis(sentinel.connection)),
  servers: () => [sentinel.nodes[0]!],
});

describeLink({
  name: 'to a Cluster',
  open: async () => linkOf(new Cluster(cluster.addresses, { keyPrefix: 'app:' })),
  servers: () => cluster.nodes,
  moveSlot: (key) => moveSlot(cluster, key),
  isCluster: true,
});

describeLink({
  name: 'over a socket',
  open: async () => new ToyLink(redis.port),
  openAt: async (port) => new ToyLink(port),
  servers,
  isBlind: true,
});

describeStoreConformance(
  { describe, it },
  {
    name: 'RedisIdempotencyStore over a socket',
    create: async () => {
      let now = START_MS;
      const set = async (ms: number) => {
        now = ms;
        await setClock(admin, now * 1_000 + 517);
      };
      await set(now);
      const store = new RedisIdempotencyStore({
        link: () => new ToyLink(redis.port),
        scripts: clockedScripts,
      });
      const clock = { now: () => now, step: (ms: number) => set(now + ms) };
      return { store, clock, dispose: () => store.close() };
    },
  },
);
