import type { StopWatching } from '../../core/record/commands.js';
import { Watchers } from '../../core/store/watchers.js';
import { nodeClock } from '../../core/util/clock.js';
import { isDoneWithin } from '../../core/util/time.js';
import type { RedisLink, Subscriber } from './link/redis-link.js';

/** One connection, opened for the first waiting duplicate; one subscription per record, however many wait for it. */
export class Subscriptions {
  private readonly watchers = new Watchers<string>();
  private readonly subscribed = new Map<string, Promise<unknown>>();
  private subscriber: Subscriber | undefined;
  private isClosed = false;

  constructor(private readonly link: RedisLink) {}

  /** @returns a function that stops watching, or `undefined` if subscribing took longer than `timeoutMs`. */
  async watch(
    channel: string,
    onMessage: () => void,
    timeoutMs: number,
  ): Promise<StopWatching | undefined> {
    // A connection opened now would never be closed.
    if (this.isClosed) return undefined;
    const subscriber = (this.subscriber ??= this.link.subscribe((notified) => {
      this.watchers.notify(notified);
    }));
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
    this.subscriber?.close();
  }
}
