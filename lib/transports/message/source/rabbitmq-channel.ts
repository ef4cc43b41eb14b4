import { setMaxListeners } from 'node:events';

/** What is used of amqplib's message. */
export interface RabbitMqMessage {
  readonly fields: { readonly deliveryTag: number; readonly redelivered: boolean };
  readonly properties: { readonly replyTo?: unknown; readonly correlationId?: unknown };
}

/** What is used of amqplib's channel. */
export interface RabbitMqChannel extends EndingChannel {
  ack(message: RabbitMqMessage, allUpTo?: boolean): void;
  nack(message: RabbitMqMessage, allUpTo?: boolean, requeue?: boolean): void;
  reject(message: RabbitMqMessage, requeue?: boolean): void;
  ackAll(): void;
  nackAll(requeue?: boolean): void;
}

interface EndingChannel {
  once(event: 'close', listener: () => void): unknown;
}

const ends = new WeakMap<EndingChannel, AbortSignal>();

/** Aborted when the channel closes: the broker requeues its unacknowledged messages then. */
export function channelEnd(channel: EndingChannel): AbortSignal {
  const known = ends.get(channel);
  if (known !== undefined) return known;
  const end = new AbortController();
  // Every paused message listens to it: as many as the channel prefetches.
  setMaxListeners(0, end.signal);
  channel.once('close', () => {
    end.abort();
  });
  ends.set(channel, end.signal);
  return end.signal;
}
