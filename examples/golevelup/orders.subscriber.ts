import { setTimeout as delay } from 'node:timers/promises';
import { Nack, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable } from '@nestjs/common';
import type { Channel, ConsumeMessage } from 'amqplib';
import {
  Idempotent,
  requireIdempotencyContext,
  type OperationRejectedError,
} from 'nestjs-idempotency';
import { Bank, type Order } from '../bank.js';

/** The answer to a message that did not run: requeue it if it may run later, else dead-letter it. */
async function requeueOrDeadLetter({ retryAfterMs }: OperationRejectedError): Promise<Nack> {
  if (retryAfterMs === undefined) return new Nack(false);
  // RabbitMQ redelivers a requeued message at once.
  await delay(retryAfterMs);
  return new Nack(true);
}

/** From version 4.3 on, RabbitMQ counts a reject towards the limit, and not that package's own nack. */
function countFailure(channel: Channel, message: ConsumeMessage): void {
  channel.reject(message, true);
}

@Injectable()
export class OrdersSubscriber {
  constructor(private readonly bank: Bank) {}

  @RabbitSubscribe({
    exchange: 'orders',
    routingKey: 'order.placed',
    queue: 'billing',
    errorHandler: countFailure,
    queueOptions: {
      durable: true,
      arguments: {
        'x-queue-type': 'quorum',
        // Without a limit, a message that always fails is redelivered in a tight loop.
        'x-delivery-limit': 5,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': 'billing.dead',
      },
    },
  })
  @Idempotent({
    operation: 'billing.charge',
    // The publisher's id of the message. Without one the message is dead-lettered.
    key: (_order: Order, message: ConsumeMessage) => message.properties.messageId as string,
    scope: () => 'billing',
    payload: (order) => order,
    duplicates: { mode: 'wait', timeout: '1m' },
    // Acknowledge only after the outcome is stored.
    storeErrors: { whenNotSaved: 'error' },
    onRejected: requeueOrDeadLetter,
  })
  async charge(order: Order, _message: ConsumeMessage): Promise<Nack | undefined> {
    const idempotencyKey = requireIdempotencyContext().downstreamKey('bank/charge');
    await this.bank.charge(order, { idempotencyKey });
    return undefined;
  }
}
