/**
 * `node place-order.js ORDER [AMOUNT]`: publishes an order of Alice to BROKER_URL. Published twice, it is charged once.
 */
import { Logger } from '@nestjs/common';
import { validateEnvironment } from './config/environment.js';
import { OrdersPublisher } from './orders/orders-publisher.js';

const { BROKER_URL: url, ORDERS_QUEUE: queue } = validateEnvironment(process.env);
const [id, amount = '4999'] = process.argv.slice(2);
if (url === undefined || id === undefined) {
  throw new Error('Usage: BROKER_URL=amqp://127.0.0.1 node place-order.js ORDER [AMOUNT]');
}
Logger.overrideLogger(['warn', 'error']);
const publisher = new OrdersPublisher({ url, queue });
await publisher.publish({ id, customer: 'alice', amount: Number(amount), currency: 'EUR' });
await publisher.close();
console.log(`Placed ${id}.`);
