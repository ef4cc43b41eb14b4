import { IdempotencyOptionsError } from '../../../core/util/errors.js';
import type { RabbitMqChannel, RabbitMqMessage } from '../source/rabbitmq-channel.js';
import type { AckAction } from './delivery.js';

/** Receives the application's acks of a message in progress. */
export interface Listener {
  onAck(action: AckAction): void;
}

/**
 * Intercepts the application's acks of messages in progress (in a handler, interceptor, guard or exception filter):
 * they are noted and not sent. A crash between an ack and the stored outcome would lose the message, and on a second
 * ack the broker closes the channel and requeues all messages in progress. Replaces the channel's own methods, because
 * the application may already have the channel.
 */
export class AckInterceptor {
  private static readonly known = new WeakMap<RabbitMqChannel, AckInterceptor>();

  /** The channel's interceptor, installed by the first call. */
  static of(channel: RabbitMqChannel): AckInterceptor {
    const known = AckInterceptor.known.get(channel);
    if (known !== undefined) return known;
    const interceptor = new AckInterceptor(channel);
    AckInterceptor.known.set(channel, interceptor);
    return interceptor;
  }

  private readonly inProgress = new Map<number, Listener>();
  /** Messages acknowledged by the library, or by the application before the library had them. */
  private readonly acknowledged = new WeakSet<RabbitMqMessage>();
  /** Messages that the library has acknowledged: their handlers may still be running. */
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

  /** Passes acks of `message` to `listener` from now on. @returns whether it is still unacknowledged. */
  track(message: RabbitMqMessage, listener: Listener): boolean {
    if (this.acknowledged.has(message)) return false;
    this.inProgress.set(message.fields.deliveryTag, listener);
    return true;
  }

  /** Acknowledges a message. Later acks of it are not sent. */
  acknowledge(message: RabbitMqMessage, action: AckAction): void {
    const listener = this.inProgress.get(message.fields.deliveryTag);
    if (listener !== undefined) this.ended.set(message, listener);
    this.acknowledged.add(message);
    this.inProgress.delete(message.fields.deliveryTag);
    try {
      if (action === 'accept') this.own.ack(message);
      else this.own.nack(message, false, action === 'requeue');
    } catch {
      // The channel has closed. The message is redelivered, and its outcome is stored.
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
      `${method}() was called for several messages at once, some of which have @Idempotent() handlers and no stored outcome yet. Do not acknowledge these: the library does so when their outcomes are stored.`,
    );
  }
}
