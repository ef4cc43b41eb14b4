import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Injectable, type INestMicroservice } from '@nestjs/common';
import { connect, type ChannelModel, type ConfirmChannel } from 'amqplib';
import { requireIdempotencyContext } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { queueDepth } from '../../test/support/rabbitmq/rabbitmq-queues.js';
import { useRabbitMq } from '../../test/support/rabbitmq/use-rabbitmq.js';
import { useRedis } from '../../test/support/redis/use-redis.js';
import { untilSettled } from '../../test/support/waiting/until.js';
import { startConsumer } from '../../test/e2e/messages/support/start-consumer.js';
import { Bank, type Order } from '../bank.js';
import { billingQueue } from './billing-queue.js';
import { OrdersConsumer } from './orders.consumer.js';

/** What the bank was asked for, in all processes. */
const calls: { readonly id: string; readonly idempotencyKey: string; readonly attempt: number }[] =
  [];

/** Charges, unless the amount is negative. */
@Injectable()
class ListedBank extends Bank {
  override async charge(
    { id, amount }: Order,
    { idempotencyKey }: { readonly idempotencyKey: string },
  ): Promise<void> {
    calls.push({ id, idempotencyKey, attempt: requireIdempotencyContext().attempt });
    if (amount < 0) throw new Error('planned: refused');
    return Promise.resolve();
  }
}

const redis = useRedis();
const broker = useRabbitMq();
let queue: string;
let connection: ChannelModel;
let channel: ConfirmChannel;
let consumers: INestMicroservice[];

beforeEach(async () => {
  calls.length = 0;
  queue = `billing-${randomUUID()}`;
  connection = await connect(broker.url);
  channel = await connection.createConfirmChannel();
  await channel.assertQueue(`${queue}.dead`, { durable: true });
  consumers = [];
  // One after the other: of two clients that declare the same new quorum queue at once, RabbitMQ 3.10 cuts one off (541).
  for (let started = 0; started < 2; started += 1) {
    const consumer = await startConsumer(billingQueue(broker.url, queue), {
      controllers: [OrdersConsumer],
      providers: [{ provide: Bank, useClass: ListedBank }],
      options: { store: redisStore({ url: redis.url }), message: { redeliveryDelay: '20ms' } },
    });
    consumers.push(consumer);
  }
});
afterEach(async () => {
  await Promise.all(consumers.map((consumer) => consumer.close()));
  await connection.close();
});

async function publish(order: Order): Promise<void> {
  const content = Buffer.from(JSON.stringify({ pattern: 'order.placed', data: order }));
  channel.sendToQueue(queue, content, { persistent: true, messageId: order.id });
  await channel.waitForConfirms();
}

/** Waits until the queue is empty and so many messages are dead-lettered. */
const settled = (deadLettered: number) =>
  untilSettled(async () => {
    const { ready, unacked } = await queueDepth(broker, queue);
    const { messageCount } = await channel.checkQueue(`${queue}.dead`);
    return ready === 0 && unacked === 0 && messageCount === deadLettered;
  });

it('Each order is charged once, however often its message is published', async () => {
  const orders = [1, 2, 3].map((amount) => ({ id: randomUUID(), amount }));
  for (const order of [...orders, ...orders, ...orders]) await publish(order);
  await settled(0);
  expect(calls.map(({ id }) => id).sort()).toEqual(orders.map(({ id }) => id).sort());
});

it('An order whose charge always fails is dead-lettered by the limit of the queue', async () => {
  await publish({ id: randomUUID(), amount: -1 });
  await settled(1);
  expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(new Set(calls.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
});
