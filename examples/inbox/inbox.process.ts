/** Consumes the queue until it is killed. */
import 'reflect-metadata';
import { Pool } from 'pg';
import { startConsumer } from '../../test/e2e/messages/support/start-consumer.js';
import { billingQueue } from '../orders-on-rabbitmq/billing-queue.js';
import { consumerOptions } from './revenue-queue.js';
import { RevenueConsumer } from './revenue.consumer.js';

const { url, broker, queue } = JSON.parse(process.env.TEST_SETTINGS ?? '') as {
  readonly url: string;
  readonly broker: string;
  readonly queue: string;
};

await startConsumer(billingQueue(broker, queue), {
  controllers: [RevenueConsumer],
  options: consumerOptions(url, new Pool({ connectionString: url })),
});
console.log(JSON.stringify({ listens: queue }));
