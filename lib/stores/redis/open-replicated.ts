import type { BinaryRedisClient, ReplicatedClient } from './binary-client.js';

/** A WAIT that is sent again without the script before it would speak of nothing, and confirm it. */
const NEVER_AGAIN = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
};

/** @returns a connection like that of `client`, for scripts that WAIT follows. */
export function openReplicated(client: BinaryRedisClient): ReplicatedClient {
  return client.isCluster === true
    ? client.duplicate([], { enableAutoPipelining: false, redisOptions: NEVER_AGAIN })
    : client.duplicate(NEVER_AGAIN);
}
