/** Runs an instance, and stops forever between the end of a step and its entry in the journal. */
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import type { Order } from './bank.js';
import { fulfilmentApp } from './fulfilment-app.js';
import { Journal } from './journal.js';
import { OrderFulfilment } from './order-fulfilment.workflow.js';

const { url, order, stopsAfter } = JSON.parse(process.env.TEST_SETTINGS ?? '') as {
  readonly url: string;
  readonly order: Order;
  readonly stopsAfter: string;
};
const redis = new Redis(url);
const app = await NestFactory.createApplicationContext(fulfilmentApp(url, redis), {
  logger: false,
});
const journal = new Journal(redis, order.id, async (name) => {
  if (name !== stopsAfter) return;
  console.log(JSON.stringify({ stopped: name }));
  await new Promise(() => undefined);
});
await journal.run((context) => app.get(OrderFulfilment).run(context, order));
