import type { INestApplication } from '@nestjs/common';
import { deadLetterQueue, ordersTransport, type OrdersQueue } from './orders-queue.js';

/** Lets an application consume orders in addition to its routes. */
export async function consumeOrders(app: INestApplication, orders: OrdersQueue): Promise<void> {
  await declareDeadLetters(orders);
  app.connectMicroservice(ordersTransport(orders));
  await app.startAllMicroservices();
}

/** Nest creates the queue that it consumes. Without its dead-letter queue, dead-lettered messages would be lost. */
async function declareDeadLetters({ url, queue }: OrdersQueue): Promise<void> {
  // Applications without a broker do not need its client.
  const { connect } = await import('amqplib');
  const connection = await connect(url);
  try {
    const channel = await connection.createChannel();
    await channel.assertQueue(deadLetterQueue(queue), { durable: true });
  } finally {
    await connection.close();
  }
}
