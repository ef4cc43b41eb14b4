import { RedisNode } from '../../../test/support/redis/redis-node.js';
import { RedisProxy } from '../../../test/support/redis/proxy/redis-proxy.js';

/** A store that can go away and come back. */
export interface Outage {
  readonly name: string;
  /** What the application connects to. */
  readonly url: string;
  begin(): Promise<void>;
  end(): Promise<void>;
  /** Ends the servers. */
  stop(): Promise<void>;
}

/** The server has stopped: connections are refused. */
export async function rejectedConnections(): Promise<Outage> {
  const redis = await RedisNode.start();
  return {
    name: 'connection refused',
    url: redis.url,
    begin: () => redis.kill(),
    end: () => redis.start(),
    stop: () => redis.stop(),
  };
}

/** Connections stand, or are accepted, and nothing comes back. */
export async function blackHole(): Promise<Outage> {
  const redis = await RedisNode.start();
  const proxy = await RedisProxy.start(redis.port);
  return {
    name: 'black hole',
    url: proxy.url,
    begin: () => {
      proxy.swallowEverything();
      return Promise.resolve();
    },
    end: () => {
      proxy.heal();
      return Promise.resolve();
    },
    stop: async () => {
      await proxy.stop();
      await redis.stop();
    },
  };
}
