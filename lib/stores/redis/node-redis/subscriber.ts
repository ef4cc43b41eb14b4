import { guarded } from '../link/guarded-listener.js';
import type { Subscriber } from '../link/redis-link.js';
import { isClusterClient, type ClusterClient, type SingleClient } from './client-types.js';
import { keepConnecting } from './own-connection.js';

/**
 * Subscribes on a duplicate of the connection: on that of the commands, a listener that throws would shift their replies.
 * A cluster opens a connection for the channels of each server by itself.
 */
export function openSubscriber(
  client: SingleClient | ClusterClient,
  keyPrefix: string,
  onMessage: (channel: string) => void,
): Subscriber {
  const notify = guarded(onMessage);
  // A script's channel is the key as the server stores it.
  const listener = (_message: string, channel: string) => {
    notify(channel.slice(keyPrefix.length));
  };
  if (isClusterClient(client)) {
    const subscribed = new Set<string>();
    const unsubscribe = (channel: string) => {
      subscribed.delete(channel);
      return client.sUnsubscribe(channel, listener);
    };
    return {
      subscribe: (channel) => {
        subscribed.add(keyPrefix + channel);
        return client.sSubscribe(keyPrefix + channel, listener);
      },
      unsubscribe: (channel) => unsubscribe(keyPrefix + channel),
      close: () => {
        // What the cluster could not unsubscribe ends with its connections.
        for (const channel of subscribed) unsubscribe(channel).catch(() => undefined);
      },
    };
  }
  // Callers have their own timeout: what they subscribe to may wait for the connection.
  const duplicate = client.duplicate({ disableOfflineQueue: false, pingInterval: 0 });
  return {
    subscribe: (channel) => duplicate.subscribe(keyPrefix + channel, listener),
    unsubscribe: (channel) => duplicate.unsubscribe(keyPrefix + channel),
    close: keepConnecting(duplicate),
  };
}
