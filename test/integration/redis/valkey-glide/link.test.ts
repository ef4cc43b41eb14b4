import { glideLink } from '../../../support/internals/redis.js';
import { RedisCluster } from '../../../support/redis/redis-cluster.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { useRedisClient } from '../../../support/redis/use-redis.js';
import { useServer } from '../../../support/servers/use-server.js';
import { describeLink, moveSlot } from '../support/describe-link.js';
import {
  glideClient,
  glideClusterClient,
  type GlideOfTest,
} from '../../../support/redis/glide-clients.js';

/** Its own: no file that counts commands may see connections which GLIDE opens late. */
const redis = useServer(startRedis);
const admin = useRedisClient(redis);
const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));
const servers = () => [
  {
    port: redis.port,
    call: (command: string, ...args: (string | number)[]) => admin.call(command, ...args),
  },
];

/** Of an application, which closes it itself. */
function linkOf(client: GlideOfTest) {
  const link = glideLink(client);
  const close = link.close.bind(link);
  return Object.assign(link, {
    close: async () => {
      await close();
      client.close();
    },
  });
}

describeLink({
  name: 'of a client of GLIDE',
  open: async () => linkOf(await glideClient(redis.port)),
  openAt: async (port) => linkOf(await glideClient(port)),
  servers,
  isHidden: true,
});

describeLink({
  name: 'of a cluster client of GLIDE',
  open: async () => linkOf(await glideClusterClient(cluster.addresses)),
  servers: () => cluster.nodes,
  moveSlot: (key) => moveSlot(cluster, key),
  isCluster: true,
  isHidden: true,
});
