import type { RequiredReplicas } from '../link/redis-link.js';
import { STALL_TIMEOUT_MS, StallDetector } from '../link/stall-detector.js';
import { CorkedWrites } from './client-commands.js';
import type { BinaryRedisClient, EndingClient } from './client-types.js';
import { ReconnectOnEnd, type OpenedConnection } from './own-connection.js';
import { databaseOf } from './selected-database.js';
import { listenToNodes, listenToSockets } from './stream-errors.js';

const NEVER_AGAIN = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // No bytes arrive during a WAIT.
  socketTimeout: undefined,
};

/** Opens a duplicate of the connection of `client`: it resends nothing, as a WAIT without its script confirms nothing. */
export function openReplicated(
  client: BinaryRedisClient,
  required: RequiredReplicas,
): OpenedConnection {
  const duplicate = duplicateOf(client);
  duplicate.on('error', () => undefined);
  const stallTimeoutMs = STALL_TIMEOUT_MS + required.timeoutMs;
  const stallDetector = new StallDetector(duplicate, stallTimeoutMs);
  const reconnectOnEnd = new ReconnectOnEnd(duplicate);
  return {
    client: duplicate,
    stallDetector,
    stallTimeoutMs,
    corkedWrites: new CorkedWrites(duplicate),
    required,
    close: () => {
      reconnectOnEnd.stop();
      duplicate.disconnect();
      return Promise.resolve();
    },
  };
}

function duplicateOf(client: BinaryRedisClient): BinaryRedisClient & EndingClient {
  if (client.isCluster !== true)
    return listenToSockets(client.duplicate({ ...NEVER_AGAIN, db: databaseOf(client) }));
  // ioredis 5 would replace all of `redisOptions`.
  const redisOptions = { ...client.options?.redisOptions, ...NEVER_AGAIN };
  return listenToNodes(client.duplicate([], { enableAutoPipelining: false, redisOptions }));
}
