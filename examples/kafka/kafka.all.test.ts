import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Injectable, type INestMicroservice } from '@nestjs/common';
import type { KafkaContext } from '@nestjs/microservices';
import { memoryStore } from 'nestjs-idempotency/memory';
import { ServerWithoutBroker } from '../../test/e2e/messages/support/server-without-broker.js';
import { startConsumer } from '../../test/e2e/messages/support/start-consumer.js';
import { Bank, OrderRejectedError, type Order } from '../bank.js';
import { OrdersConsumer } from './orders.consumer.js';
import { ParkedMessages } from './parked-messages.js';

@Injectable()
class ListedBank extends Bank {
  readonly charges: { readonly id: string; readonly idempotencyKey: string }[] = [];
  failures: Error[] = [];

  override charge(
    { id }: Order,
    { idempotencyKey }: { readonly idempotencyKey: string },
  ): Promise<void> {
    const failure = this.failures.shift();
    if (failure !== undefined) return Promise.reject(failure);
    this.charges.push({ id, idempotencyKey });
    return Promise.resolve();
  }
}

@Injectable()
class ListedMessages extends ParkedMessages {
  readonly offsets: string[] = [];

  override add(context: KafkaContext): Promise<void> {
    this.offsets.push(context.getMessage().offset);
    return Promise.resolve();
  }
}

let server: ServerWithoutBroker;
let app: INestMicroservice;
let bank: ListedBank;
let parked: readonly string[];

beforeEach(async () => {
  server = new ServerWithoutBroker({});
  app = await startConsumer(
    { strategy: server },
    {
      controllers: [OrdersConsumer],
      providers: [
        { provide: Bank, useClass: ListedBank },
        { provide: ParkedMessages, useClass: ListedMessages },
      ],
      options: { store: memoryStore() },
    },
  );
  bank = app.get(Bank);
  parked = app.get<ListedMessages>(ParkedMessages).offsets;
});
afterEach(() => app.close());

const newOrder = () => ({ id: randomUUID(), amount: 1 });

function deliver(offset: number, order: Order, eventId: string | undefined = order.id) {
  return server.deliver('orders.placed', offset, {
    value: Buffer.from(JSON.stringify(order)),
    headers: eventId === '' ? {} : { 'event-id': Buffer.from(eventId) },
  });
}

it('An order whose event was sent twice, and fetched again, is charged once', async () => {
  const order = newOrder();
  for (const offset of [1, 1, 2]) await deliver(offset, order);
  expect(bank.charges.map(({ id }) => id)).toEqual([order.id]);
});

it('An order whose charge failed is not committed, and charged when it is fetched again', async () => {
  const order = newOrder();
  bank.failures = [new Error('planned: the bank is down')];
  await expect(deliver(1, order)).rejects.toThrow('planned');
  expect([bank.charges, parked]).toEqual([[], []]);
  await deliver(1, order);
  expect([bank.charges.length, parked]).toEqual([1, []]);
});

it('What can never be handled is parked, and its offset is committed', async () => {
  const order = newOrder();
  bank.failures = [new OrderRejectedError('planned: refused')];
  await deliver(1, order);
  await deliver(2, newOrder(), '');
  await deliver(3, order);
  await deliver(4, { ...order, amount: 2 });
  expect(parked).toEqual(['1', '2', '4']);
  expect(bank.charges.map(({ id }) => id)).toEqual([order.id]);
});
