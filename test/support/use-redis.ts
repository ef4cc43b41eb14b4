import type { SharedServer } from './shared-servers/kinds.js';
import { useSharedServer } from './shared-servers/use-shared-server.js';

/**
 * A redis-server that no other file uses at the same time, and that is empty when the file begins. It is not to be
 * stopped, killed, paused or configured: `startRedis` is for that.
 */
export function useRedis(): SharedServer {
  const server = useSharedServer('redis');
  return {
    get url() {
      return server().url;
    },
    get port() {
      return server().port;
    },
  };
}
