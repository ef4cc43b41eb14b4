import { IdempotencyOptionsError } from '../../../core/util/errors.js';
import type { RabbitMqChannel, RabbitMqMessage } from '../source/rabbitmq-channel.js';
import type { Verdict } from './delivery.js';

/** Hears what an application says of a message that is under way. */
export interface Listener {
  heard(verdict: Verdict): void;
}

/**
 * A channel on which the layer speaks for the messages that it has under way. What anybody else says of one of these
 * (the handler, an interceptor, a guard, an exception filter) is heard and not sent: told before its outcome is stored, a
 * crash in between would lose it, and told twice, the broker closes the channel and takes back all that are under way.
 *
 * It stands in the channel's own methods, for whoever has the channel may have had it before the layer.
 */
export class AttendedChannel {
  private static readonly known = new WeakMap<RabbitMqChannel, AttendedChannel>();

  /** The channel's one, from now on. */
  static of(channel: RabbitMqChannel): AttendedChannel {
    const known = AttendedChannel.known.get(channel);
    if (known !== undefined) return known;
    const attended = new AttendedChannel(channel);
    AttendedChannel.known.set(channel, attended);
    return attended;
  }

  private readonly underWay = new Map<number, Listener>();
  /** Of which the broker has been told before the layer had them. */
  private readonly told = new WeakSet<RabbitMqMessage>();
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
      if (!this.hears(message, 'accept')) own.ack(message, allUpTo);
    };
    channel.nack = (message, allUpTo = false, requeue = true) => {
      if (allUpTo) this.checkBulk('nack');
      const verdict = requeue ? 'requeue' : 'dead-letter';
      if (!this.hears(message, verdict)) own.nack(message, allUpTo, requeue);
    };
    channel.reject = (message, requeue = true) => {
      const verdict = requeue ? 'requeue' : 'dead-letter';
      if (!this.hears(message, verdict)) own.reject(message, requeue);
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
  attend(message: RabbitMqMessage, listener: Listener): boolean {
    if (this.told.has(message)) return false;
    this.underWay.set(message.fields.deliveryTag, listener);
    return true;
  }

  /** Tells the broker. Whatever is said after that is not sent. */
  tell(message: RabbitMqMessage, verdict: Verdict): void {
    const listener = this.underWay.get(message.fields.deliveryTag);
    if (listener !== undefined) this.ended.set(message, listener);
    this.told.add(message);
    this.underWay.delete(message.fields.deliveryTag);
    try {
      if (verdict === 'accept') this.own.ack(message);
      else this.own.nack(message, false, verdict === 'requeue');
    } catch {
      // The channel has closed, and the message comes again: its outcome is stored.
    }
  }

  private hears(message: RabbitMqMessage, verdict: Verdict): boolean {
    const listener = this.underWay.get(message.fields.deliveryTag);
    if (listener !== undefined) {
      listener.heard(verdict);
      return true;
    }
    if (this.told.has(message)) {
      this.ended.get(message)?.heard(verdict);
      return true;
    }
    this.told.add(message);
    return false;
  }

  private checkBulk(method: string): void {
    if (this.underWay.size === 0) return;
    throw new IdempotencyOptionsError(
      `${method}() was called for several messages of a channel, among them such of handlers with @Idempotent() whose outcomes are not stored yet. Acknowledge none: the broker is told when the outcome is stored.`,
    );
  }
}
