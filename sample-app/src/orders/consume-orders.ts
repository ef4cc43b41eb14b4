import type { INestApplication } from '@nestjs/common';
import { deadLetterQueue, ordersTransport, type OrdersQueue } from './orders-queue.js';

/** Has an application consume orders beside whatever else it does. */
export async function consumeOrders(app: INestApplication, orders: OrdersQueue): Promise<void> {
  await declareDeadLetters(orders);
  app.connectMicroservice(ordersTransport(orders));
  await app.startAllMicroservices();
}

/** Nest makes the queue that it consumes. One that is missing behind it would swallow what is put aside. */
async function declareDeadLetters({ url, queue }: OrdersQueue): Promise<void> {
  // Who has no broker needs no client for one.
  const { connect } = await import('amqplib');
  const connection = await connect(url);
  try {
    const channel = await connection.createChannel();
    await channel.assertQueue(deadLetterQueue(queue), { durable: true });
  } finally {
    await connection.close();
  }
}
