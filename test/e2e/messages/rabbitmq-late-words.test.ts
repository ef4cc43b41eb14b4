import { describe, expect, it } from '@jest/globals';
import type { NestInterceptor } from '@nestjs/common';
import type { IdempotencyOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { NEVER, timeout } from 'rxjs';
import { until } from '../../integration/redis/support/until.js';
import { FaultyStore, unavailable } from '../../support/faulty-store.js';
import { Gate } from '../../support/http/gate.js';
import { emitOrder, orders } from './support/orders.js';
import { useBroker } from './support/use-broker.js';

const { consumers, openQueue } = useBroker();

/** The handler of the first order acknowledges when its gate opens, and never ends. */
function firstNeverEnds(options: IdempotencyOptions) {
  const runs: number[] = [];
  const gate = new Gate();
  gate.close();
  const controller = orders(({ id, channel, message }) => {
    runs.push(id);
    if (id !== 1) return undefined;
    void gate.pass().then(() => channel.ack(message));
    return NEVER;
  }, options);
  return { controller, runs, gate };
}

describe('a handler', () => {
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
    await emitOrder(queue, 1);
    await until(() => arrived >= 2);
    gate.open();
    await queue.isEmpty();
    expect(runs).toBe(2);
  });

  it('that acknowledges after its key was lost, and never ends, stops the queue no longer', async () => {
    const queue = await openQueue();
    const { controller, runs, gate } = firstNeverEnds({ leaseMs: 400, maxExecutionMs: 400 });
    const { events } = await consumers.start(
      queue,
      controller,
      { store: memoryStore(), shutdownTimeoutMs: 0 },
      { prefetch: 1 },
    );
    await emitOrder(queue, 1);
    await emitOrder(queue, 2);
    await until(() => events.some(({ type }) => type === 'lease_lost'));
    gate.open();
    await until(() => runs.includes(2), 3_000);
    await queue.isEmpty();
  });

  // Acknowledged between the two losses of its key: 'expired' and 'max_execution'.
  it('that acknowledges after its lease has run out, and never ends, stops the queue no longer', async () => {
    const queue = await openQueue();
    const store = new FaultyStore(memoryStore());
    store.always(unavailable, 'extend');
    const { controller, runs, gate } = firstNeverEnds({ leaseMs: 200, maxExecutionMs: 800 });
    const { events } = await consumers.start(
      queue,
      controller,
      { store, shutdownTimeoutMs: 0 },
      { prefetch: 1 },
    );
    await emitOrder(queue, 1);
    await emitOrder(queue, 2);
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
