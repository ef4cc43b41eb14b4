import { Redis } from 'ioredis';
import { RedisProxy } from '../../../test/support/redis/proxy/redis-proxy.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import type { Topology } from './topology.js';

/** One redis-server, and a proxy for each worker. */
export const single: Topology = {
  async start({ workers }) {
    const server = await startRedis();
    const admin = new Redis(server.url);
    const ways = await Promise.all(
      Array.from({ length: workers }, () => RedisProxy.start(server.port, { canAim: false })),
    );
    const version = /redis_version:(\S+)/.exec(await admin.info('server'))?.[1] ?? 'unknown';
    return {
      servers: { Redis: version },
      ways,
      storeFor: (slot) => ({ kind: 'redis', url: ways[slot]!.url }),
      async command(...words) {
        const [name = '', ...args] = words;
        await admin.call(name, ...args);
      },
      async stop() {
        admin.disconnect();
        await Promise.all(ways.map((way) => way.stop()));
        await server.stop();
      },
    };
  },
};
