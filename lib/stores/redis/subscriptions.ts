import type { StopWatching } from '../../core/store/idempotency-store.js';
import { Watchers } from '../../core/util/listeners.js';
import { isDoneWithin } from '../../core/util/time.js';
import type { Subscriber } from './subscriber.js';

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
      this.watchers.tell(channel);
    });
    return subscriber;
  }
}
