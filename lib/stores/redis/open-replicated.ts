import type { BinaryRedisClient, ReplicatedClient } from './binary-client.js';
import { databaseOf } from './selected-database.js';

/** A WAIT that is sent again without the script before it would speak of nothing, and confirm it. */
const NEVER_AGAIN = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // WAIT is silent for as long as it waits.
  socketTimeout: undefined,
};

/** @returns a connection like that of `client`, for scripts that WAIT follows. */
export function openReplicated(client: BinaryRedisClient): ReplicatedClient {
  if (client.isCluster !== true)
    return client.duplicate({ ...NEVER_AGAIN, db: databaseOf(client) });
  // ioredis 5 would let these alone stand.
  const redisOptions = { ...client.options?.redisOptions, ...NEVER_AGAIN };
  return client.duplicate([], { enableAutoPipelining: false, redisOptions });
}
