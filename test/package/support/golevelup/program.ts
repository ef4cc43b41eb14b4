/** A billing service on @golevelup/nestjs-rabbitmq, whose bank prints each charge. */
import 'reflect-metadata';
import { once } from 'node:events';
import { Nack, RabbitMQModule, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { ConsumeMessage } from 'amqplib';
import { currentIdempotencyContext, IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { Bank, type Order } from '../../../../examples/bank.js';
import { OrdersSubscriber } from '../../../../examples/golevelup/orders.subscriber.js';
import type { ProgramMessage, ProgramSettings } from './program-settings.js';

const { brokerUrl, redisUrl, onTakeover, holdsAt } = JSON.parse(
  process.env.TEST_SETTINGS ?? '',
) as ProgramSettings;

const firstInput = once(process.stdin, 'data');

function report(message: ProgramMessage): void {
  console.log(JSON.stringify(message));
}

/** Fails for negative amounts always, and for zero at the first attempt. */
@Injectable()
class PrintedBank extends Bank {
  override async charge(
    { id, amount }: Order,
    { idempotencyKey }: { readonly idempotencyKey: string },
  ): Promise<void> {
    const { attempt, isTakeover } = currentIdempotencyContext() ?? {};
    const isFailure = amount < 0 || (amount === 0 && attempt === 1);
    report({
      said: isFailure ? 'failed' : 'charged',
      id,
      idempotencyKey,
      ...(attempt !== undefined && { attempt }),
      ...(isTakeover !== undefined && { isTakeover }),
    });
    if (isFailure) throw new Error('planned: failed');
    if (id === holdsAt) await firstInput;
  }
}

/** What the guide warns of: the Nack is the method's value, and so it is stored. */
@Injectable()
class NackingSubscriber {
  @RabbitSubscribe({
    exchange: 'orders',
    routingKey: 'order.nacked',
    queue: 'nacking',
    queueOptions: { durable: true, arguments: { 'x-queue-type': 'quorum' } },
  })
  @Idempotent({
    key: (_order: Order, { properties }: ConsumeMessage) => String(properties.messageId),
  })
  async returnNack({ id }: Order, _message: ConsumeMessage): Promise<Nack> {
    report({ said: 'returned a Nack', id });
    return Promise.resolve(new Nack(true));
  }
}

@Module({
  imports: [
    RabbitMQModule.forRoot({ uri: brokerUrl, exchanges: [{ name: 'orders', type: 'topic' }] }),
    IdempotencyModule.forRoot({
      service: 'orders',
      store: redisStore({ url: redisUrl }),
      lease: { duration: 2_000, onTakeover },
      // The limit of five redeliveries allows for an outage of some seconds.
      duplicates: { retryAfter: 1_000 },
    }),
  ],
  providers: [OrdersSubscriber, NackingSubscriber, { provide: Bank, useClass: PrintedBank }],
})
class BillingModule {}

const app = await NestFactory.createApplicationContext(BillingModule, { logger: ['error'] });
app.enableShutdownHooks();
report({ said: 'ready' });
