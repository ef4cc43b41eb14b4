/** A billing service on @golevelup/nestjs-rabbitmq, whose bank prints each charge. */
import 'reflect-metadata';
import { Nack, RabbitMQModule, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { ConsumeMessage } from 'amqplib';
import { IdempotencyModule, Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { Bank, type Order } from '../bank.js';
import { OrdersSubscriber } from './orders.subscriber.js';
import type { ProgramMessage, ProgramSettings } from './program-settings.js';

const { brokerUrl, redisUrl, leaseMs, hangsAt } = JSON.parse(
  process.env.TEST_SETTINGS ?? '',
) as ProgramSettings;

function report(message: ProgramMessage): void {
  console.log(JSON.stringify(message));
}

@Injectable()
class PrintedBank extends Bank {
  override async charge(
    { id, amount }: Order,
    { idempotencyKey }: { readonly idempotencyKey: string },
  ): Promise<void> {
    const { attempt, isTakeover } = requireIdempotencyContext();
    const isRejected = amount < 0;
    const said = isRejected ? 'refused' : 'charged';
    report({ said, id, amount, idempotencyKey, attempt, isTakeover });
    if (isRejected) throw new Error('planned: refused');
    if (id === hangsAt) await new Promise(() => undefined);
  }
}

/** What the guide warns of: the Nack is the method's value, and so it is stored. */
@Injectable()
class NackingSubscriber {
  @RabbitSubscribe({ exchange: 'orders', routingKey: 'order.nacked', queue: 'nacking' })
  @Idempotent({
    key: (_order: Order, { properties }: ConsumeMessage) => String(properties.messageId),
  })
  async reject({ id }: Order, _message: ConsumeMessage): Promise<Nack> {
    report({ said: 'returned a Nack', id });
    return Promise.resolve(new Nack(true));
  }
}

@Module({
  imports: [
    RabbitMQModule.forRoot({ uri: brokerUrl, exchanges: [{ name: 'orders', type: 'topic' }] }),
    IdempotencyModule.forRoot({
      store: redisStore({ url: redisUrl }),
      lease: { durationMs: leaseMs },
      duplicates: { retryAfterMs: 200 },
    }),
  ],
  providers: [OrdersSubscriber, NackingSubscriber, { provide: Bank, useClass: PrintedBank }],
})
class BillingModule {}

const app = await NestFactory.createApplicationContext(BillingModule, { logger: false });
app.enableShutdownHooks();
report({ said: 'ready' });
