import { setTimeout as sleep } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { OrdersPublisher } from '../../src/orders/orders-publisher.js';
import type { PlacedOrderDto } from '../../src/orders/placed-order.dto.js';
import type { BrokerQueues } from './broker-queues.js';
import { type Consumers, injectFaults } from './faults.js';
import { copiesOf, MAX_COPIES, placedOrders } from './orders.js';
import { randomOf } from './random.js';
import { showProgress } from './progress.js';
import type { DemoSettings } from './settings.js';
import { LEASE_MS, PROVIDER_DELAY_MS, DemoEnvironment } from './environment.js';
import { checksOf, type Observation, summaryOf } from './summary.js';

const POLL_MS = 200;

/** Publishes the orders, injects faults into the consumers, and prints what the ledger contains. */
export async function runDemo(settings: DemoSettings): Promise<boolean> {
  const startedAt = performance.now();
  const environment = new DemoEnvironment(settings.brokerUrl);
  const giveUp = () => void environment.clear().finally(() => process.exit(1));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, giveUp);
  process.once('uncaughtException', (error) => {
    console.error(error);
    giveUp();
  });
  // Hides the log lines of Nest's client for RabbitMQ.
  Logger.overrideLogger(['warn', 'error']);
  try {
    const seen = await runDemoOn(environment, settings);
    const failures = Object.entries(checksOf(seen)).filter(([, holds]) => !holds);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`\n${summaryOf(seen)}\n`);
    for (const [check] of failures) console.log(`✗ not: ${check}`);
    if (failures.length === 0) console.log('✓ every order was charged once');
    console.log(`\nDone after ${seconds} s.`);
    return failures.length === 0;
  } finally {
    await environment.clear();
  }
}

async function runDemoOn(
  environment: DemoEnvironment,
  { orders: count, seed }: DemoSettings,
): Promise<Observation> {
  const orders = placedOrders(count);
  const copies = copiesOf(orders, randomOf(seed));
  await environment.set();
  const consumers = await startConsumers(environment);
  console.log(introduction(environment, orders, seed));
  await publish(environment, copies);
  await untilAllIsDone(environment, consumers, orders.length);
  // A message that a consumer still holds returns to the queue.
  await Promise.all(consumers.map((consumer) => consumer.close()));
  const total = (name: 'deliveries' | 'redeliveries' | 'replays' | 'takeovers' | 'askedAgain') =>
    consumers.reduce((sum, consumer) => sum + consumer[name], 0);
  return {
    orders,
    published: copies.length,
    deliveries: total('deliveries'),
    redeliveries: total('redeliveries'),
    replays: total('replays'),
    takeovers: total('takeovers'),
    askedAgain: total('askedAgain'),
    charges: environment.ledger.charges(),
    remaining: await environment.queues.waiting(),
    deadLettered: await environment.queues.deadLettered(),
  };
}

async function startConsumers(environment: DemoEnvironment): Promise<Consumers> {
  const consumers: Consumers = [
    await environment.addConsumer(),
    await environment.addConsumer(),
    await environment.addConsumer(),
  ];
  await Promise.all(consumers.map((consumer) => consumer.start()));
  return consumers;
}

async function publish({ brokerUrl, queue }: DemoEnvironment, copies: readonly PlacedOrderDto[]) {
  const publisher = new OrdersPublisher({ url: brokerUrl, queue });
  await Promise.all(copies.map((order) => publisher.publish(order)));
  await publisher.close();
}

/** Injects the faults and waits for the end of all orders, as long as something happens. */
async function untilAllIsDone(
  { ledger, queues }: DemoEnvironment,
  consumers: Consumers,
  orders: number,
): Promise<void> {
  const charged = () => new Set(ledger.charges().map(({ description }) => description)).size;
  const progress = () => charged() / orders;
  const deliveries = () => consumers.reduce((sum, consumer) => sum + consumer.deliveries, 0);
  const isOver = new AbortController();
  const work = async () => {
    await injectFaults(consumers, progress);
    await untilNothingIsLeft(queues, consumers, progress);
  };
  const counts = () => ({ orders, charged: charged(), deliveries: deliveries() });
  try {
    await Promise.race([work(), showProgress(counts, isOver.signal)]);
  } finally {
    isOver.abort();
  }
}

/** Waits until neither broker nor consumers have an order, twice in a row: one may be in transit. */
async function untilNothingIsLeft(
  queues: BrokerQueues,
  consumers: Consumers,
  progress: () => number,
): Promise<void> {
  for (let quiet = 0; quiet < 2;) {
    await sleep(POLL_MS);
    const isPaused = consumers.some(({ holds }) => holds > 0);
    const isDone = progress() === 1 && !isPaused && (await queues.waiting()) === 0;
    quiet = isDone ? quiet + 1 : 0;
  }
}

function introduction(
  environment: DemoEnvironment,
  { length }: readonly PlacedOrderDto[],
  seed: number,
): string {
  const [delay, lease] = [PROVIDER_DELAY_MS / 1000, LEASE_MS / 1000];
  return `
Three consumers, each with its API in its own process, share ${environment.servers}.
Each of ${length.toLocaleString('en')} orders is published 1 to ${MAX_COPIES} times, in random order (DEMO_SEED=${seed}). A charge takes ${delay} s, a lease lasts ${lease} s.
Connections to the broker are cut, and one consumer is killed and started again.`;
}
