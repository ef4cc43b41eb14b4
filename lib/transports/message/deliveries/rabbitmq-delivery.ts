import { executionScope } from '../../../core/operation/execution-scope.js';
import {
  channelEnd,
  type RabbitMqChannel,
  type RabbitMqMessage,
} from '../source/rabbitmq-channel.js';
import { AckInterceptor } from './ack-interceptor.js';
import type { Delivery, AckAction } from './delivery.js';

const events = new WeakSet<RabbitMqMessage>();

/** Notes that Nest handles a message as an event: it sends no reply, whatever the message's properties. */
export function markEvent(message: RabbitMqMessage): void {
  events.add(message);
}

/** A delivery of RabbitMQ that must be acknowledged (`noAck: false`). */
export class RabbitMqDelivery implements Delivery {
  readonly isReturned = true;
  readonly maxUnacknowledgedMs = undefined;
  readonly revoked: AbortSignal;
  requestedAck: AckAction | undefined;
  isReturnedByHandler = false;
  isRunning = false;
  isAbandoned = (): boolean => false;
  private readonly channel: AckInterceptor;
  private isAcknowledged: boolean;
  private ackListener: (() => void) | undefined;

  constructor(
    private readonly message: RabbitMqMessage,
    channel: RabbitMqChannel,
    private readonly isEventHandler: boolean,
  ) {
    this.revoked = channelEnd(channel);
    this.channel = AckInterceptor.of(channel);
    this.isAcknowledged = !this.channel.track(message, this);
  }

  get isEvent(): boolean {
    const { replyTo, correlationId } = this.message.properties;
    const expectsReply = replyTo !== undefined && correlationId !== undefined;
    return this.isEventHandler || !expectsReply || events.has(this.message);
  }

  get isRedelivered(): boolean {
    return this.message.fields.redelivered;
  }

  onAck(requestedAck: AckAction): void {
    // A nack while the handler runs is the handler's: its return is not a success.
    const isHandlers =
      executionScope.getStore() !== undefined || (this.isRunning && !this.isAbandoned());
    if (requestedAck !== 'accept' && this.requestedAck !== 'accept' && isHandlers)
      this.isReturnedByHandler = true;
    // The first ack counts, as it does for the broker.
    if (this.requestedAck !== undefined) return;
    this.requestedAck = requestedAck;
    this.ackListener?.();
  }

  onRequestedAck(listener: () => void): void {
    this.ackListener = listener;
  }

  async keepAlive(): Promise<void> {
    // A connected consumer keeps unacknowledged messages until "consumer_timeout".
  }

  acknowledge(action: AckAction): void {
    if (this.isAcknowledged) return;
    this.isAcknowledged = true;
    this.channel.acknowledge(this.message, action);
  }
}
