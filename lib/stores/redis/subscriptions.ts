import type { StopWatching } from '../../core/store/idempotency-store.js';
import { Watchers } from '../../core/util/listeners.js';
import { isDoneWithin } from '../../core/util/time.js';
import type { BinaryRedisClient } from './connection/client-types.js';

/**
 * The channels that this process listens to, over one connection of its own: one subscription per record,
 * however many wait for it. The connection is opened when the first one waits.
 */
export class Subscriptions {
  private readonly watchers = new Watchers<string>();
  private readonly subscribed = new Map<string, Promise<unknown>>();
  private subscriber: Subscriber | undefined;
  private isClosed = false;

  constructor(private readonly open: () => Subscriber) {}

  /** @returns how to stop, or `undefined` when it could not be subscribed to within `timeoutMs`. */
  async watch(
    channel: string,
    onMessage: () => void,
    timeoutMs: number,
  ): Promise<StopWatching | undefined> {
    // Nothing would close a connection that is opened now.
    if (this.isClosed) return undefined;
    const subscriber = (this.subscriber ??= this.connect());
    if (this.watchers.add(channel, onMessage)) {
      this.subscribed.set(channel, subscriber.subscribe(channel));
    }
    const stop = () => {
      if (!this.watchers.remove(channel, onMessage)) return;
      this.subscribed.delete(channel);
      // A connection that is gone listens to nothing.
      subscriber.unsubscribe(channel).catch(() => undefined);
    };
    if (await isDoneWithin(timeoutMs, this.subscribed.get(channel))) return stop;
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

/** A connection that only listens. A channel is named like a key, without the prefix that the client adds. */
interface Subscriber {
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
