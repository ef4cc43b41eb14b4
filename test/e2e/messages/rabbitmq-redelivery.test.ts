import { describe, expect, it } from '@jest/globals';
import type { IdempotencyOptions } from 'nestjs-idempotency';
import type { Begin } from 'nestjs-idempotency/store';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { until } from '../../support/waiting/until.js';
import {
  FaultyStore,
  heldReply,
  heldRequest,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { emitOrder, orders } from './support/orders.js';
import { useBroker } from './support/use-broker.js';

const redis = useRedis();
const { consumers, openQueue, openRelay } = useBroker();

/** A controller that records for each execution whether its message was redelivered; it waits at a gate. */
function noting(options: IdempotencyOptions = {}) {
  const gate = new Gate();
  const runs: boolean[] = [];
  const controller = orders(async ({ message }) => {
    runs.push(message.fields.redelivered);
    await gate.pass();
  }, options);
  return { gate, runs, controller };
}

function closedGate(): Gate {
  const gate = new Gate();
  gate.close();
  return gate;
}

describe('a message whose outcome', () => {
  it.each([
    ['is on its way to Redis', heldRequest, 'in_progress'],
    ['is stored but not confirmed', heldReply, 'completed'],
  ])('%s stays with the broker, which redelivers it', async (_, held, state) => {
    const queue = await openQueue();
    const { log, cut, connection } = await openRelay();
    const store = new FaultyStore(redisStore({ url: redis.url }));
    const stored = closedGate();
    store.next('complete', held(stored));
    const { gate, runs, controller } = noting({ message: { consumer: queue.name } });
    await consumers.start(queue, controller, { store }, { connection });
    const record = () => {
      const { recordKey } = store.sentOf('begin')[0]!.command as Begin;
      return store.inspect(recordKey, { timeoutMs: 5_000 });
    };

    gate.close();
    await emitOrder(queue, 1);
    await until(() => runs.length === 1);
    expect(await queue.depth()).toMatchObject({ ready: 0, unacked: 1 });
    gate.open();
    await until(() => store.sentOf('complete').length === 1);
    expect(await queue.depth()).toMatchObject({ ready: 0, unacked: 1 });
    expect((await record())?.state).toBe(state);
    // It is unacknowledged: if its consumer dies now, it is redelivered.
    cut();
    await until(() => log.deliveries.length === 1);
    expect(log.deliveries).toEqual([expect.objectContaining({ key: 'm1', end: 'returned' })]);

    await until(() => log.delivered === 2);
    stored.open();
    await queue.isEmpty();
    expect((await record())?.state).toBe('completed');
    expect(log.deliveries.slice(1)).toEqual([
      expect.objectContaining({ key: 'm1', isRedelivered: true, end: 'acked' }),
    ]);
    expect(runs).toEqual([false]);
  });
});

describe('a delivery that the broker has requeued is not handled', () => {
  it('after waiting for a copy in progress that failed', async () => {
    const queue = await openQueue();
    const { log, cut, connection } = await openRelay();
    const store = () => redisStore({ url: redis.url });
    const failure = closedGate();
    let fails = 0;
    const failing = orders(
      async () => {
        fails += 1;
        await failure.pass();
        throw new Error('planned');
      },
      { message: { consumer: queue.name } },
    );
    const { runs, controller } = noting({ message: { consumer: queue.name } });
    const first = await consumers.start(queue, failing, { store: store() }, { prefetch: 1 });
    await emitOrder(queue, 1);
    await until(() => fails === 1);
    const second = await consumers.start(queue, controller, { store: store() }, { connection });
    await emitOrder(queue, 1);
    // Its message waits for the other consumer, which takes no more messages.
    await until(() => log.unacknowledged === 1);
    const closed = first.app.close();
    cut();
    await until(() => log.closes.length === 1);
    failure.open();
    await closed;
    // The broker has requeued it, and delivers it on another channel.
    await until(() => log.delivered >= 3);
    await queue.isEmpty();
    expect(runs).toEqual([true]);
    expect(second.events.filter(({ type }) => type === 'acquired')).toHaveLength(1);
  });

  it('after waiting for the store to recover', async () => {
    const queue = await openQueue();
    const { log, cut, connection } = await openRelay();
    const store = new FaultyStore(memoryStore());
    store.always(unavailable, 'begin');
    const { runs, controller } = noting({ duplicates: { retryAfterMs: 20 } });
    const { events } = await consumers.start(queue, controller, { store }, { connection });
    await emitOrder(queue, 1);
    await until(() => events.length >= 2);
    cut();
    await until(() => log.closes.length === 1);
    store.heal();
    await until(() => log.delivered === 2);
    await queue.isEmpty();
    expect(runs).toEqual([true]);
  });
});
