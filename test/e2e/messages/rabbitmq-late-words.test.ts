import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { NestInterceptor } from '@nestjs/common';
import { memoryStore } from 'nestjs-idempotency/memory';
import { NEVER, timeout } from 'rxjs';
import { until } from '../../integration/redis/support/until.js';
import { FaultyStore, unavailable } from '../../support/faulty-store.js';
import { Gate } from '../../support/http/gate.js';
import { startRabbitMq, type RabbitMqServer } from '../../support/rabbitmq-server.js';
import { Consumers } from './support/consumers.js';
import { orders } from './support/orders.js';
import { TestQueue } from './support/test-queue.js';

let broker: RabbitMqServer;
const consumers = new Consumers();
beforeAll(async () => {
  broker = await startRabbitMq();
}, 60_000);
afterEach(() => consumers.close());
afterAll(() => broker.stop());
const openQueue = async () => consumers.with(await TestQueue.open(broker));
const emit = (queue: TestQueue, id: number) =>
  queue.emit('order.placed', { id }, { messageId: `m${id}` });

describe('a handler', () => {
  // bugs.md 3
  it('that hands its message back after an interceptor has given up on it gets it again', async () => {
    const queue = await openQueue();
    const gate = new Gate();
    gate.close();
    let arrived = 0;
    let runs = 0;
    const impatient: NestInterceptor = {
      intercept: (_, next) => (runs > 0 ? next.handle() : next.handle().pipe(timeout(30))),
    };
    const controller = orders(
      async ({ channel, message }) => {
        runs += 1;
        if (runs > 1) return;
        await gate.pass();
        channel.nack(message);
      },
      {},
      impatient,
    );
    const guard = { canActivate: () => (arrived += 1) > 0 };
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emit(queue, 1);
    await until(() => arrived >= 2);
    gate.open();
    await queue.isEmpty();
    expect(runs).toBe(2);
  });

  // bugs.md 5
  it('that acknowledges after its key was lost, and never ends, stops the queue no longer', async () => {
    const queue = await openQueue();
    const runs: number[] = [];
    const gate = new Gate();
    gate.close();
    const controller = orders(
      ({ id, channel, message }) => {
        runs.push(id);
        if (id === 2) return undefined;
        void gate.pass().then(() => channel.ack(message));
        return NEVER;
      },
      { leaseMs: 400, maxExecutionMs: 400 },
    );
    const { events } = await consumers.start(
      queue,
      controller,
      { store: memoryStore(), shutdownTimeoutMs: 0 },
      { prefetch: 1 },
    );
    await emit(queue, 1);
    await emit(queue, 2);
    await until(() => events.some(({ type }) => type === 'lease_lost'));
    gate.open();
    await until(() => runs.includes(2), 3_000);
    await queue.isEmpty();
  });

  // bugs.md 2, as it is now: acknowledged between "expired" and "max_execution"
  it('that acknowledges after its lease has run out, and never ends, stops the queue no longer', async () => {
    const queue = await openQueue();
    const runs: number[] = [];
    const gate = new Gate();
    gate.close();
    const store = new FaultyStore(memoryStore());
    store.always(unavailable, 'extend');
    const controller = orders(
      ({ id, channel, message }) => {
        runs.push(id);
        if (id === 2) return undefined;
        void gate.pass().then(() => channel.ack(message));
        return NEVER;
      },
      { leaseMs: 200, maxExecutionMs: 800 },
    );
    const { events } = await consumers.start(
      queue,
      controller,
      { store, shutdownTimeoutMs: 0 },
      { prefetch: 1 },
    );
    await emit(queue, 1);
    await emit(queue, 2);
    await until(() => events.some(({ type }) => type === 'lease_lost'));
    gate.open();
    await until(
      () => events.some((event) => event.type === 'lease_lost' && event.reason === 'max_execution'),
      3_000,
    );
    await until(() => runs.includes(2), 3_000);
    await queue.isEmpty();
  });
});
