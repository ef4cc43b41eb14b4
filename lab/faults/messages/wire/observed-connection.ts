import { FrameReader } from './frame-reader.js';
import { sayingIn, type AckMethod, type MessageProperties, type Saying } from './saying.js';
import type { WireClose, WireDelivery, WireLog } from './wire-log.js';

/** `AMQP` and the version. */
const GREETING_BYTES = 8;

interface Channel {
  /** By their tags. */
  readonly unacknowledged: Map<number, Pick<WireDelivery, 'key' | 'copy' | 'isRedelivered' | 'at'>>;
  hasDelivered: boolean;
  /** What was delivered, and not described yet. */
  announced: { readonly tag: number; readonly isRedelivered: boolean } | undefined;
  /** Why the consumer has asked for its end; the broker may still be sending. */
  farewell: string | undefined;
  /** It has ended. What the broker had sent before it knew arrives all the same. */
  close: WireClose | undefined;
}

/** Listens to one connection between a broker and a consumer. */
export class ObservedConnection {
  private readonly broker = new FrameReader();
  private readonly client = new FrameReader(GREETING_BYTES);
  private readonly channels = new Map<number, Channel>();
  private farewell: string | undefined;

  constructor(
    private readonly log: WireLog,
    private readonly consumer: string,
  ) {}

  fromBroker(chunk: Buffer): void {
    for (const frame of this.broker.read(chunk)) {
      const saying = sayingIn(frame);
      if (saying !== undefined) this.brokerSays(frame.channel, saying);
    }
  }

  fromConsumer(chunk: Buffer): void {
    for (const frame of this.client.read(chunk)) {
      const saying = sayingIn(frame);
      if (saying !== undefined) this.consumerSays(frame.channel, saying);
    }
  }

  /** Whether something has been delivered on it. */
  get hasDelivered(): boolean {
    return [...this.channels.values()].some((channel) => channel.hasDelivered);
  }

  /** The broker has let go of it. */
  end(): void {
    this.closeAll('none', this.farewell);
  }

  private brokerSays(number: number, saying: Saying): void {
    switch (saying.kind) {
      case 'delivers':
        this.channelOf(number).announced = saying;
        return;
      case 'describes':
        this.delivered(this.channelOf(number), saying);
        return;
      case 'closes channel':
        this.close(number, 'broker', reasonOf(saying));
        return;
      case 'channel closed':
        this.close(number, 'consumer', this.channelOf(number).farewell);
        return;
      case 'closes connection':
        this.closeAll('broker', reasonOf(saying));
        return;
      default:
        // Acknowledgements of a broker are for those who publish.
        return;
    }
  }

  private consumerSays(number: number, saying: Saying): void {
    switch (saying.kind) {
      case 'opens channel':
        this.channels.delete(number);
        return;
      case 'acked':
      case 'requeued':
      case 'discarded': {
        const { unacknowledged } = this.channelOf(number);
        const { tag, isBulk, kind, method } = saying;
        const tags = isBulk ? [...unacknowledged.keys()].filter((other) => other <= tag) : [tag];
        for (const one of tags) this.settle(unacknowledged, one, kind, method);
        return;
      }
      case 'closes channel':
        this.channelOf(number).farewell = reasonOf(saying);
        return;
      case 'closes connection':
        this.farewell = reasonOf(saying);
        return;
      default:
        return;
    }
  }

  private delivered(channel: Channel, message: MessageProperties): void {
    const { announced, unacknowledged, close } = channel;
    channel.announced = undefined;
    // What comes back to a publisher for want of a queue is described, too.
    if (announced === undefined) return;
    const { tag, isRedelivered } = announced;
    channel.hasDelivered = true;
    this.log.delivered += 1;
    this.log.unacknowledged += 1;
    const { messageId: key = '', correlationId: copy = '' } = message;
    unacknowledged.set(tag, { key, copy, isRedelivered, at: Date.now() });
    if (close !== undefined) {
      close.returned += 1;
      this.settle(unacknowledged, tag, 'returned');
    }
  }

  private settle(
    unacknowledged: Channel['unacknowledged'],
    tag: number,
    end: WireDelivery['end'],
    method?: AckMethod,
  ): void {
    const delivery = unacknowledged.get(tag);
    // An unknown delivery tag closes the channel, which is logged.
    if (delivery === undefined) return;
    unacknowledged.delete(tag);
    const { log, consumer } = this;
    log.unacknowledged -= 1;
    const how = method === undefined ? {} : { method };
    log.deliveries.push({ ...delivery, consumer, end, ...how, endedAt: Date.now() });
  }

  private closeAll(by: WireClose['by'], reason: string | undefined): void {
    for (const number of this.channels.keys()) this.close(number, by, reason);
  }

  private close(number: number, by: WireClose['by'], reason: string | undefined): void {
    const channel = this.channels.get(number);
    if (channel === undefined || channel.close !== undefined) return;
    const { unacknowledged, hasDelivered } = channel;
    const tags = [...unacknowledged.keys()];
    for (const tag of tags) this.settle(unacknowledged, tag, 'returned');
    const { consumer } = this;
    const why = reason === undefined ? {} : { reason };
    channel.close = { consumer, by, ...why, returned: tags.length, at: Date.now() };
    if (hasDelivered) this.log.closes.push(channel.close);
  }

  private channelOf(number: number): Channel {
    const known = this.channels.get(number);
    if (known !== undefined) return known;
    const channel: Channel = {
      unacknowledged: new Map(),
      hasDelivered: false,
      announced: undefined,
      farewell: undefined,
      close: undefined,
    };
    this.channels.set(number, channel);
    return channel;
  }
}

function reasonOf({ code, text }: { readonly code: number; readonly text: string }): string {
  return `${code} ${text}`;
}
