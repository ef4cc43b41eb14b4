import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { connect } from 'amqplib';
import { IdempotencyEvents, type IdempotencyEvent } from 'nestjs-idempotency';
import { ApiProcess } from '../../../sample-app/demo/processes/api-process.js';
import { Ledger } from '../../../sample-app/src/ledger/ledger.js';
import { consumeOrders } from '../../../sample-app/src/orders/consume-orders.js';
import { deadLetterQueue, DELIVERY_LIMIT } from '../../../sample-app/src/orders/orders-queue.js';
import { OrdersPublisher } from '../../../sample-app/src/orders/orders-publisher.js';
import type { PlacedOrderDto } from '../../../sample-app/src/orders/placed-order.dto.js';
import { PaymentProvider } from '../../../sample-app/src/provider/payment-provider.js';
import { welcome } from '../../../sample-app/src/welcome.js';
import { until } from '../../support/waiting/until.js';
import { queueDepth, queueLength } from '../../support/rabbitmq/rabbitmq-queues.js';
import { useRabbitMq } from '../../support/rabbitmq/use-rabbitmq.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';

// The app reads its settings when it is imported.
process.env.STORE = 'memory';
process.env.PROVIDER_DELAY_MS = '20';
const { createApp } = await import('../../../sample-app/src/create-app.js');
const { validateEnvironment } = await import('../../../sample-app/src/config/environment.js');

const PLACE_ORDER = fileURLToPath(
  new URL('../../../sample-app/src/place-order.ts', import.meta.url),
);
const DECLINED = 4020;
const PROVIDER_DOWN = 5000;

function order(more: Partial<PlacedOrderDto> = {}): PlacedOrderDto {
  return { id: `order-${randomUUID()}`, customer: 'alice', amount: 4999, currency: 'EUR', ...more };
}

describe('the orders consumer of the sample app', () => {
  const broker = useRabbitMq();
  let queue: string;
  let app: INestApplication;
  let publisher: OrdersPublisher;
  let happened: IdempotencyEvent['type'][];

  beforeEach(async () => {
    queue = `orders-${randomUUID()}`;
    app = await createApp('express');
    await app.listen(0, '127.0.0.1');
    // Some of these tests provoke failures.
    app.useLogger(false);
    happened = [];
    app.get(IdempotencyEvents).subscribe(({ type }) => happened.push(type));
    await consumeOrders(app, { url: broker.url, queue });
    publisher = new OrdersPublisher({ url: broker.url, queue });
  });
  afterEach(async () => {
    await publisher.close();
    await app.close();
  });

  const count = (type: IdempotencyEvent['type']) => happened.filter((it) => it === type).length;

  /** The unacknowledged messages of the consumer are in the queue again after it has closed. */
  async function abandoned(): Promise<number> {
    await until(async () => (await queueDepth(broker, queue)).unacked === 0);
    await app.close();
    return (await queueLength(broker.url, queue)).ready;
  }

  async function charged(): Promise<(string | undefined)[]> {
    const entries = await app.get(Ledger).entries();
    return entries.flatMap((entry) => (entry.kind === 'charge' ? [entry.description] : []));
  }

  /** The dead-lettered messages, and why. */
  async function deadLetters(): Promise<{ id: string; reason: string }[]> {
    const connection = await connect(broker.url);
    try {
      const channel = await connection.createChannel();
      const letters = [];
      for (;;) {
        const letter = await channel.get(deadLetterQueue(queue), { noAck: true });
        if (letter === false) return letters;
        const { messageId, headers } = letter.properties;
        letters.push({ id: String(messageId), reason: String(headers?.['x-death']?.[0]?.reason) });
      }
    } finally {
      await connection.close();
    }
  }

  it('charges once for an order that its program has placed twice', async () => {
    const id = `order-${randomUUID()}`;
    for (const times of [1, 2]) {
      const program = spawn(process.execPath, [...typescriptNodeOptions, PLACE_ORDER, id], {
        env: { ...process.env, BROKER_URL: broker.url, ORDERS_QUEUE: queue },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      expect(await once(program, 'exit')).toEqual([0, null]);
      await until(() => count('completed') + count('replayed') === times);
    }
    expect(await charged()).toEqual([id]);
    expect(await deadLetters()).toEqual([]);
    expect(await abandoned()).toBe(0);
  });

  it('works beside the API, in one process and on one ledger', async () => {
    const url = await app.getUrl();
    const payment = fetch(`${url}/payments`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer bob-demo-token',
        'content-type': 'application/json',
        'idempotency-key': randomUUID(),
      },
      body: JSON.stringify({ amount: 100, currency: 'EUR' }),
    });
    await publisher.publish(order());
    expect((await payment).status).toBe(201);
    await until(() => count('completed') === 2);
    const books = await (await fetch(`${url}/ledger`)).json();
    expect(books).toEqual({ charges: { alice: 1, bob: 1 }, chargedTwice: 0 });
  });

  it('dead-letters an invalid order at once, and continues with the next one', async () => {
    const [nonsense, placed] = [order({ amount: -1 }), order()];
    await publisher.publish(nonsense);
    await publisher.publish(placed);
    await until(() => count('released') === 1 && count('completed') === 1);
    expect(await abandoned()).toBe(0);
    expect(await charged()).toEqual([placed.id]);
    expect(await deadLetters()).toEqual([{ id: nonsense.id, reason: 'rejected' }]);
  });

  it('treats a declined card as an outcome, which a redelivery does not change', async () => {
    const declined = order({ amount: DECLINED });
    await publisher.publish(declined);
    await publisher.publish(declined);
    await until(() => count('completed') === 1 && count('replayed') === 1);
    expect(await charged()).toEqual([]);
    expect(await deadLetters()).toEqual([]);
    expect(await abandoned()).toBe(0);
  });

  it("retries an order while the provider is down, up to the broker's limit", async () => {
    const placed = order({ amount: PROVIDER_DOWN });
    await publisher.publish(placed);
    await until(() => count('released') === DELIVERY_LIMIT + 1, 30_000);
    expect(await abandoned()).toBe(0);
    expect(await charged()).toEqual([]);
    expect(await deadLetters()).toEqual([{ id: placed.id, reason: 'delivery_limit' }]);
  }, 60_000);

  it('passes the provider a key under which it charges once', async () => {
    const placed = order();
    await publisher.publish(placed);
    await until(() => count('completed') === 1);
    const [charge] = await app.get(Ledger).entries();
    if (charge?.kind !== 'charge') throw new Error('The ledger has no charge');
    expect(charge.reference).toMatch(/^[\w-]{43}$/);

    const again = app.get(PaymentProvider).chargeOnce(charge, AbortSignal.timeout(5000));
    expect(await again).toEqual(charge);
    expect(await charged()).toEqual([placed.id]);
  });
});

describe('the sample app without a broker', () => {
  it('runs without amqplib', async () => {
    const absent = new URL('../../support/rabbitmq/without-amqplib.mjs', import.meta.url).href;
    const nodeOptions = [...typescriptNodeOptions, '--import', absent];
    const api = new ApiProcess({ STORE: 'memory' }, nodeOptions);
    await api.untilListening();
    expect((await fetch(`${api.url}/ledger`)).status).toBe(200);
    await api.kill();

    // amqplib is required only with a broker.
    const consumer = new ApiProcess({ BROKER_URL: 'amqp://127.0.0.1:1' }, nodeOptions);
    await expect(consumer.untilListening()).rejects.toThrow('amqplib is not installed');
  });

  it.each(['http://127.0.0.1', '127.0.0.1:5672'])('rejects %s as its URL', (BROKER_URL) => {
    expect(() => validateEnvironment({ BROKER_URL })).toThrow('BROKER_URL must be');
  });
});

describe('the welcome of the sample app with a broker', () => {
  it("says how to place an order, without the broker's password", () => {
    const settings = { BROKER_URL: 'amqp://shop:secret@127.0.0.1:5672', ORDERS_QUEUE: 'orders' };
    const text = welcome('http://127.0.0.1:3000', validateEnvironment(settings));
    expect(text).toContain('place-order.js order-1');
    expect(text).not.toContain('secret');
    expect(welcome('http://127.0.0.1:3000', validateEnvironment({}))).not.toContain('place-order');
  });
});
