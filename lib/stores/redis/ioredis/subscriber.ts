import { guarded } from '../link/guarded-listener.js';
import type { Subscriber } from '../link/redis-link.js';
import { knowsShardedChannels, type BinaryRedisClient } from './client-types.js';
import { listenToNodes, listenToSockets } from './stream-errors.js';

const LISTENING = {
  // Callers have their own timeout. A channel that they gave up meanwhile must still be unsubscribed.
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  enableAutoPipelining: false,
  // A demoted primary forwards what its successor publishes.
  failoverDetector: false,
};

const SHARDED = { shardedSubscribers: true };

/** Opens a duplicate of the connection of `client`, for subscriptions. */
export function openSubscriber(
  client: BinaryRedisClient,
  onMessage: (channel: string) => void,
): Subscriber {
  const isSharded = knowsShardedChannels(client);
  const connection =
    client.isCluster === true
      ? listenToNodes(client.duplicate([], { ...LISTENING, ...(isSharded && SHARDED) }))
      : listenToSockets(client.duplicate(LISTENING));
  // The connection for commands reports outages; this one reconnects by itself.
  connection.on('error', () => undefined);
  // A script's channel is the key as the server stores it. ioredis adds the prefix to sharded channels only.
  const prefix = client.options?.keyPrefix ?? '';
  const notify = guarded(onMessage);
  connection.on(isSharded ? 'smessage' : 'message', (channel: string) => {
    notify(channel.slice(prefix.length));
  });
  return {
    subscribe: (channel) =>
      isSharded ? connection.ssubscribe(channel) : connection.subscribe(prefix + channel),
    unsubscribe: (channel) =>
      isSharded ? connection.sunsubscribe(channel) : connection.unsubscribe(prefix + channel),
    close: () => {
      connection.disconnect();
    },
  };
}
