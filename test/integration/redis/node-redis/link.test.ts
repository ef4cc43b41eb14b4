import type { NodeRedisClient } from 'nestjs-idempotency/node-redis';
import { createClient, createCluster } from 'redis';
import {
  nodeRedisLink,
  openNodeRedis,
  ownNodeRedisLink,
} from '../../../support/internals/redis.js';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { useRedisClient } from '../../../support/redis/use-redis.js';
import { useServer } from '../../../support/servers/use-server.js';
import { describeLink, moveSlot } from '../support/describe-link.js';

/** Its own: no file that counts commands may see connections which a client opens late. */
const redis = useServer(startRedis);
const admin = useRedisClient(redis);
const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));
const servers = () => [
  {
    port: redis.port,
    call: (command: string, ...args: (string | number)[]) => admin.call(command, ...args),
  },
];

type ApplicationClient = NodeRedisClient & {
  connect(): Promise<unknown>;
  destroy(): void;
};

/** Of an application, which closes it itself. */
async function linkOf(client: ApplicationClient) {
  client.on('error', () => undefined);
  await client.connect();
  const link = nodeRedisLink(client);
  const close = link.close.bind(link);
  return Object.assign(link, {
    close: async () => {
      await close();
      client.destroy();
    },
  });
}

const clientOf = (port: number, options = {}) =>
  createClient({ url: `redis://127.0.0.1:${port}`, ...options });
const rootNodes = () => cluster.addresses.map((socket) => ({ socket }));

for (const RESP of [2, 3] as const) {
  describeLink({
    name: `of a client of node-redis, by RESP ${RESP}`,
    open: () => linkOf(clientOf(redis.port, { RESP })),
    openAt: (port) => linkOf(clientOf(port, { RESP })),
    servers,
  });

  describeLink({
    name: `of a cluster of node-redis, by RESP ${RESP}`,
    open: () => linkOf(createCluster({ rootNodes: rootNodes(), RESP })),
    servers: () => cluster.nodes,
    moveSlot: (key) => moveSlot(cluster, key),
    isCluster: true,
  });
}

describeLink({
  name: 'of node-redis, on a connection of the store',
  open: async () => ownNodeRedisLink(await openNodeRedis({ url: redis.url })),
  openAt: async (port) =>
    ownNodeRedisLink(await openNodeRedis({ connection: { socket: { port } } })),
  servers,
});
