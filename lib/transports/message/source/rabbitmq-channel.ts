import { setMaxListeners } from 'node:events';

/** The part of amqplib's message that is needed here. */
export interface RabbitMqMessage {
  readonly fields: { readonly deliveryTag: number; readonly redelivered: boolean };
  readonly properties: { readonly replyTo?: unknown; readonly correlationId?: unknown };
}

/** The part of amqplib's channel that is needed here. */
export interface RabbitMqChannel extends EndingChannel {
  ack(message: RabbitMqMessage, allUpTo?: boolean): void;
  nack(message: RabbitMqMessage, allUpTo?: boolean, requeue?: boolean): void;
  reject(message: RabbitMqMessage, requeue?: boolean): void;
  ackAll(): void;
  nackAll(requeue?: boolean): void;
}

/** What amqplib's channel has that tells of its end. */
interface EndingChannel {
  once(event: 'close', listener: () => void): unknown;
}

const ends = new WeakMap<EndingChannel, AbortSignal>();

/** Aborted once the channel has closed: the broker has taken back then what was not acknowledged. */
export function channelEnd(channel: EndingChannel): AbortSignal {
  const known = ends.get(channel);
  if (known !== undefined) return known;
  const end = new AbortController();
  // Every message that is held listens to it: as many as the broker sends ahead.
  setMaxListeners(0, end.signal);
  channel.once('close', () => {
    end.abort();
  });
  ends.set(channel, end.signal);
  return end.signal;
}
