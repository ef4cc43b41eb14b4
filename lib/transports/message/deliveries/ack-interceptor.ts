import { IdempotencyOptionsError } from '../../../core/util/errors.js';
import type { RabbitMqChannel, RabbitMqMessage } from '../source/rabbitmq-channel.js';
import type { AckAction } from './delivery.js';

/** Hears what an application says of a message that is under way. */
export interface Listener {
  onAck(action: AckAction): void;
}

/**
 * A channel on which the layer speaks for the messages that it has under way. What anybody else says of one of these
 * (the handler, an interceptor, a guard, an exception filter) is heard and not sent: told before its outcome is stored, a
 * crash in between would lose it, and told twice, the broker closes the channel and takes back all that are under way.
 *
 * It stands in the channel's own methods, for whoever has the channel may have had it before the layer.
 */
export class AckInterceptor {
  private static readonly known = new WeakMap<RabbitMqChannel, AckInterceptor>();

  /** The channel's one, from now on. */
  static of(channel: RabbitMqChannel): AckInterceptor {
    const known = AckInterceptor.known.get(channel);
    if (known !== undefined) return known;
    const interceptor = new AckInterceptor(channel);
    AckInterceptor.known.set(channel, interceptor);
    return interceptor;
  }

  private readonly inProgress = new Map<number, Listener>();
  /** Of which the broker has been told before the layer had them. */
  private readonly acknowledged = new WeakSet<RabbitMqMessage>();
  /** Of which the layer has told the broker: their handlers may still be at it. */
  private readonly ended = new WeakMap<RabbitMqMessage, Listener>();
  private readonly own: Pick<RabbitMqChannel, 'ack' | 'nack'>;

  private constructor(channel: RabbitMqChannel) {
    const own: Omit<RabbitMqChannel, 'once'> = {
      ack: channel.ack.bind(channel),
      nack: channel.nack.bind(channel),
      reject: channel.reject.bind(channel),
      ackAll: channel.ackAll.bind(channel),
      nackAll: channel.nackAll.bind(channel),
    };
    this.own = own;
    channel.ack = (message, allUpTo = false) => {
      if (allUpTo) this.checkBulk('ack');
      if (!this.intercepts(message, 'accept')) own.ack(message, allUpTo);
    };
    channel.nack = (message, allUpTo = false, requeue = true) => {
      if (allUpTo) this.checkBulk('nack');
      const action = requeue ? 'requeue' : 'dead-letter';
      if (!this.intercepts(message, action)) own.nack(message, allUpTo, requeue);
    };
    channel.reject = (message, requeue = true) => {
      const action = requeue ? 'requeue' : 'dead-letter';
      if (!this.intercepts(message, action)) own.reject(message, requeue);
    };
    channel.ackAll = () => {
      this.checkBulk('ackAll');
      own.ackAll();
    };
    channel.nackAll = (requeue) => {
      this.checkBulk('nackAll');
      own.nackAll(requeue);
    };
  }

  /** From now on `listener` hears what is said of `message`. @returns whether the broker is still to be told. */
  track(message: RabbitMqMessage, listener: Listener): boolean {
    if (this.acknowledged.has(message)) return false;
    this.inProgress.set(message.fields.deliveryTag, listener);
    return true;
  }

  /** Tells the broker. Whatever is said after that is not sent. */
  acknowledge(message: RabbitMqMessage, action: AckAction): void {
    const listener = this.inProgress.get(message.fields.deliveryTag);
    if (listener !== undefined) this.ended.set(message, listener);
    this.acknowledged.add(message);
    this.inProgress.delete(message.fields.deliveryTag);
    try {
      if (action === 'accept') this.own.ack(message);
      else this.own.nack(message, false, action === 'requeue');
    } catch {
      // The channel has closed, and the message comes again: its outcome is stored.
    }
  }

  private intercepts(message: RabbitMqMessage, action: AckAction): boolean {
    const listener = this.inProgress.get(message.fields.deliveryTag);
    if (listener !== undefined) {
      listener.onAck(action);
      return true;
    }
    if (this.acknowledged.has(message)) {
      this.ended.get(message)?.onAck(action);
      return true;
    }
    this.acknowledged.add(message);
    return false;
  }

  private checkBulk(method: string): void {
    if (this.inProgress.size === 0) return;
    throw new IdempotencyOptionsError(
      `${method}() was called for several messages of a channel, among them such of handlers with @Idempotent() whose outcomes are not stored yet. Acknowledge none: the broker is told when the outcome is stored.`,
    );
  }
}
