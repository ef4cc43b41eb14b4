import { executionScope } from '../../../core/operation/execution-scope.js';
import {
  channelEnd,
  type RabbitMqChannel,
  type RabbitMqMessage,
} from '../source/rabbitmq-channel.js';
import { AttendedChannel } from './ack-interceptor.js';
import type { Delivery, Verdict } from './delivery.js';

const events = new WeakSet<RabbitMqMessage>();

/** Notes that Nest takes a message for an event: it answers nobody, whatever the message's properties say. */
export function markEvent(message: RabbitMqMessage): void {
  events.add(message);
}

/** A delivery of RabbitMQ, which has to be acknowledged (`noAck: false`). */
export class RabbitMqDelivery implements Delivery {
  readonly isReturned = true;
  readonly patienceMs = undefined;
  readonly gone: AbortSignal;
  wish: Verdict | undefined;
  isHandedBack = false;
  isRunning = false;
  isAbandoned = (): boolean => false;
  private readonly channel: AttendedChannel;
  private isTold: boolean;
  private onWish: (() => void) | undefined;

  constructor(
    private readonly message: RabbitMqMessage,
    channel: RabbitMqChannel,
    private readonly isEventHandler: boolean,
  ) {
    this.gone = channelEnd(channel);
    this.channel = AttendedChannel.of(channel);
    this.isTold = !this.channel.attend(message, this);
  }

  get isEvent(): boolean {
    const { replyTo, correlationId } = this.message.properties;
    const isAnswered = replyTo !== undefined && correlationId !== undefined;
    return this.isEventHandler || !isAnswered || events.has(this.message);
  }

  get isRedelivered(): boolean {
    return this.message.fields.redelivered;
  }

  heard(wish: Verdict): void {
    // Said while the handler runs, it is the handler's: its return is no success then, whatever was said before.
    const isHandlers =
      executionScope.getStore() !== undefined || (this.isRunning && !this.isAbandoned());
    if (wish !== 'accept' && this.wish !== 'accept' && isHandlers) this.isHandedBack = true;
    // The first word counts, as it does for the broker.
    if (this.wish !== undefined) return;
    this.wish = wish;
    this.onWish?.();
  }

  whenWished(listener: () => void): void {
    this.onWish = listener;
  }

  async keepAlive(): Promise<void> {
    // A consumer that is connected keeps what it has not acknowledged, until "consumer_timeout".
  }

  tell(verdict: Verdict): void {
    if (this.isTold) return;
    this.isTold = true;
    this.channel.tell(this.message, verdict);
  }
}
