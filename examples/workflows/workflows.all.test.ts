import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import { TalkingProcess } from '../../test/support/processes/talking-process.js';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import { useServer } from '../../test/support/servers/use-server.js';
import type { Order } from './bank.js';
import { booksOf, fulfilmentApp } from './fulfilment-app.js';
import { Journal } from './journal.js';
import { OrderFulfilment } from './order-fulfilment.workflow.js';

const redis = useRedis();
const client = useRedisClient(redis);
const app = useServer(() =>
  NestFactory.createApplicationContext(fulfilmentApp(redis.url, client), { logger: false }),
);
let mortal: TalkingProcess<object> | undefined;

beforeEach(() => client.del('refunds'));
afterEach(() => mortal?.kill());

const newOrder = (isRefused: boolean): Order => ({ id: randomUUID(), amount: 4999, isRefused });
const run = (order: Order) =>
  new Journal(client, order.id).run((context) => app.get(OrderFulfilment).run(context, order));
const refunds = () => client.lrange('refunds', 0, -1);

async function dieAfter(stopsAfter: string, order: Order): Promise<void> {
  const script = new URL('workflows.process.ts', import.meta.url);
  mortal = new TalkingProcess(script, { url: redis.url, order, stopsAfter });
  expect(await mortal.next()).toEqual({ stopped: stopsAfter });
  await mortal.kill();
}

it('An instance charges once, and undoes its charge once', async () => {
  const [good, bad] = [newOrder(false), newOrder(true)];
  expect(await run(good)).toEqual({ completed: { number: 1 } });
  expect(await run(good)).toEqual({ completed: { number: 1 } });
  expect(await run(bad)).toMatchObject({ failed: 'The carrier refuses it.' });
  expect(await run(bad)).toMatchObject({ failed: 'The carrier refuses it.' });
  expect([await booksOf(client, good), await booksOf(client, bad)]).toEqual([
    ['charge'],
    ['charge'],
  ]);
  expect(await refunds()).toEqual(['1']);
});

it('A step that runs again, because its process died before the journal, replays its outcome', async () => {
  const order = newOrder(false);
  await dieAfter('charge', order);
  expect(await run(order)).toEqual({ completed: { number: 1 } });
  expect(await booksOf(client, order)).toEqual(['charge']);
}, 120_000);

it('A compensation that runs again, because its process died before the journal, refunds once', async () => {
  const order = newOrder(true);
  await dieAfter('undo charge', order);
  expect(await refunds()).toEqual(['1']);
  expect(await run(order)).toMatchObject({ failed: 'The carrier refuses it.' });
  expect(await refunds()).toEqual(['1']);
  expect(await booksOf(client, order)).toEqual(['charge']);
}, 120_000);
