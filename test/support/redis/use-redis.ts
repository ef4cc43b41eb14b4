import { Redis } from 'ioredis';
import type { SharedServer } from '../servers/shared/kinds.js';
import { sharedServer } from '../servers/shared/shared-server.js';
import { useServer } from '../servers/use-server.js';

/**
 * A redis-server that no other file uses at the same time, and that is empty when the file begins. Do not
 * stop, kill, pause or configure it: use `useServer(startRedis)` for that.
 */
export function useRedis(): SharedServer {
  return useServer(() => sharedServer('redis'));
}

/** A connection to a server, without the store. */
export function useRedisClient(server: { readonly url: string }): Redis {
  return useServer(
    () => new Redis(server.url),
    (client) => client.disconnect(),
  );
}
