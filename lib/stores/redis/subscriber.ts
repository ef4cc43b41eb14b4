import type { BinaryRedisClient } from './binary-client.js';

/** A connection that only listens. A channel is named like a key, without the prefix that the client adds. */
export interface Subscriber {
  onMessage(listener: (channel: string) => void): void;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** The command by which a script tells those who listen. */
export type PublishCommand = 'PUBLISH' | 'SPUBLISH';

/** On a cluster a message stays with the record's own shard, which Redis 7 can do. */
export function publishCommand({ isCluster }: BinaryRedisClient): PublishCommand {
  return isCluster === true ? 'SPUBLISH' : 'PUBLISH';
}

const LISTENING = {
  // Whoever watches has a time limit of its own; what is given up meanwhile has to be unsubscribed all the same.
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  enableAutoPipelining: false,
  // A demoted primary passes on what its successor publishes.
  failoverDetector: false,
};

/** @returns a connection like that of `client`, which can be duplicated. */
export function openSubscriber(client: BinaryRedisClient): Subscriber {
  const isSharded = client.isCluster === true;
  const connection = isSharded
    ? client.duplicate([], { ...LISTENING, shardedSubscribers: true })
    : client.duplicate(LISTENING);
  // The connection for commands tells of an outage; this one comes back by itself.
  connection.on('error', () => undefined);
  // A script's channel is the key as the server sees it. ioredis adds the prefix to sharded channels itself.
  const prefix = client.options?.keyPrefix ?? '';
  return {
    onMessage: (listener) =>
      connection.on(isSharded ? 'smessage' : 'message', (channel) => {
        listener(channel.slice(prefix.length));
      }),
    subscribe: (channel) =>
      isSharded ? connection.ssubscribe(channel) : connection.subscribe(prefix + channel),
    unsubscribe: (channel) =>
      isSharded ? connection.sunsubscribe(channel) : connection.unsubscribe(prefix + channel),
    disconnect: () => {
      connection.disconnect();
    },
  };
}
