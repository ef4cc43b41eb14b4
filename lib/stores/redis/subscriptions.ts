import type { StopWatching } from '../../core/store/idempotency-store.js';
import { Watchers } from '../../core/store/watchers.js';
import { nodeClock } from '../../core/util/clock.js';
import { isDoneWithin } from '../../core/util/time.js';
import type { BinaryRedisClient } from './ioredis/client-types.js';
import { listenToNodes, listenToSockets } from './ioredis/stream-errors.js';

/** One connection, opened for the first waiting duplicate; one subscription per record, however many wait for it. */
export class Subscriptions {
  private readonly watchers = new Watchers<string>();
  private readonly subscribed = new Map<string, Promise<unknown>>();
  private subscriber: Subscriber | undefined;
  private isClosed = false;

  constructor(private readonly open: () => Subscriber) {}

  /** @returns a function that stops watching, or `undefined` if subscribing took longer than `timeoutMs`. */
  async watch(
    channel: string,
    onMessage: () => void,
    timeoutMs: number,
  ): Promise<StopWatching | undefined> {
    // A connection opened now would never be closed.
    if (this.isClosed) return undefined;
    const subscriber = (this.subscriber ??= this.connect());
    if (this.watchers.add(channel, onMessage)) {
      this.subscribed.set(channel, subscriber.subscribe(channel));
    }
    const stop = () => {
      if (!this.watchers.remove(channel, onMessage)) return;
      this.subscribed.delete(channel);
      // A closed connection has no subscriptions.
      subscriber.unsubscribe(channel).catch(() => undefined);
    };
    if (await isDoneWithin(timeoutMs, this.subscribed.get(channel), nodeClock)) return stop;
    stop();
    return undefined;
  }

  close(): void {
    this.isClosed = true;
    this.watchers.clear();
    this.subscribed.clear();
    this.subscriber?.disconnect();
  }

  private connect(): Subscriber {
    const subscriber = this.open();
    subscriber.onMessage((channel) => {
      this.watchers.notify(channel);
    });
    return subscriber;
  }
}

/** A connection that only subscribes. Its channels are named like keys, without the prefix that the client adds. */
interface Subscriber {
  onMessage(listener: (channel: string) => void): void;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

export type PublishCommand = 'PUBLISH' | 'SPUBLISH';

/** On a cluster, a message stays in the shard of its record (Redis ≥ 7). */
export function publishCommand({ isCluster }: BinaryRedisClient): PublishCommand {
  return isCluster === true ? 'SPUBLISH' : 'PUBLISH';
}

const LISTENING = {
  // Callers have their own timeout. A channel that they gave up meanwhile must still be unsubscribed.
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  enableAutoPipelining: false,
  // A demoted primary forwards what its successor publishes.
  failoverDetector: false,
};

/** @returns a duplicate of the connection of `client`, for subscriptions. */
export function openSubscriber(client: BinaryRedisClient): Subscriber {
  const isSharded = client.isCluster === true;
  const connection = isSharded
    ? listenToNodes(client.duplicate([], { ...LISTENING, shardedSubscribers: true }))
    : listenToSockets(client.duplicate(LISTENING));
  // The connection for commands reports outages; this one reconnects by itself.
  connection.on('error', () => undefined);
  // A script's channel is the key as the server stores it. ioredis adds the prefix to sharded channels only.
  const prefix = client.options?.keyPrefix ?? '';
  return {
    onMessage: (listener) =>
      connection.on(isSharded ? 'smessage' : 'message', (channel: string) => {
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
