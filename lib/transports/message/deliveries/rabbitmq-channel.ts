import type { EndingChannel } from './channel-end.js';

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
