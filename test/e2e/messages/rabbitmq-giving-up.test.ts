import { describe, expect, it } from '@jest/globals';
import { Controller, UseInterceptors, type NestInterceptor } from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, RmqRecordBuilder } from '@nestjs/microservices';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { lastValueFrom, NEVER, timeout, toArray } from 'rxjs';
import { until } from '../../integration/redis/support/until.js';
import { Gate } from '../../support/http/gate.js';
import { emitOrder, orders } from './support/orders.js';
import { useBroker } from './support/use-broker.js';

const { consumers, openQueue } = useBroker();

/** Stands inside of the layer, and does not wait for as long as the handler takes the first time. */
function impatient(): NestInterceptor {
  let isFirst = true;
  return {
    intercept: (_, next) => {
      const wasFirst = isFirst;
      isFirst = false;
      return wasFirst ? next.handle().pipe(timeout(30)) : next.handle();
    },
  };
}

/** A handler that takes until its gate opens, and how often it was at it, also at the same time. */
class SlowWork {
  readonly gate = new Gate();
  runs = 0;
  most = 0;
  private atIt = 0;

  constructor() {
    this.gate.close();
  }

  async run(): Promise<void> {
    this.runs += 1;
    this.atIt += 1;
    this.most = Math.max(this.most, this.atIt);
    await this.gate.pass();
    this.atIt -= 1;
  }
}

/** Counts the deliveries that reach the layer. */
function arrivals() {
  const counted = { count: 0 };
  const guard = {
    canActivate: () => {
      counted.count += 1;
      return true;
    },
  };
  return { counted, guard };
}

describe('a handler that goes on after an interceptor inside of the layer has given up on it', () => {
  it('is not run beside itself, and its success counts: each copy is acknowledged', async () => {
    const queue = await openQueue();
    const work = new SlowWork();
    const { counted, guard } = arrivals();
    const { events } = await consumers.start(
      queue,
      orders(() => work.run(), {}, impatient()),
      { store: memoryStore() },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emitOrder(queue, 1);
    // It has come again, and waits.
    await until(() => counted.count >= 2);
    await emitOrder(queue, 1);
    await until(() => counted.count >= 3);
    expect(work.runs).toBe(1);
    work.gate.open();
    await queue.isEmpty();
    expect(work.runs).toBe(1);
    const types = events.map(({ type }) => type);
    expect(types.filter((type) => type === 'completed')).toHaveLength(1);
    expect(types.filter((type) => type === 'replayed')).toHaveLength(2);
    expect(types).not.toContain('released');
  });

  it('and fails then is run again, and not before', async () => {
    const queue = await openQueue();
    const work = new SlowWork();
    const { counted, guard } = arrivals();
    const controller = orders(
      async () => {
        await work.run();
        if (work.runs === 1) throw new Error('planned');
      },
      {},
      impatient(),
    );
    const { events } = await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emitOrder(queue, 1);
    await until(() => counted.count >= 2);
    expect(work.runs).toBe(1);
    work.gate.open();
    await until(() => work.runs === 2);
    await queue.isEmpty();
    expect(work.most).toBe(1);
    const types = events.map(({ type }) => type);
    expect(types.filter((type) => type !== 'waited')).toEqual([
      'acquired',
      'released',
      'acquired',
      'completed',
    ]);
  });

  it('answers nobody any more: who asks again is told that it is done, and not how', async () => {
    const queue = await openQueue();
    const work = new SlowWork();
    @Controller()
    class Prices {
      @UseInterceptors(impatient())
      @Idempotent({ consumer: 'prices' })
      @MessagePattern('price.set')
      async set(): Promise<string> {
        await work.run();
        return 'done';
      }
    }
    const { events } = await consumers.start(queue, Prices, { store: memoryStore() });
    const client = ClientProxyFactory.create(queue.transport({ noAck: true }));
    const record = new RmqRecordBuilder({}).setOptions({ messageId: 'm1' }).build();
    const ask = () => lastValueFrom(client.send<unknown>('price.set', record).pipe(toArray()));
    try {
      await expect(ask()).rejects.toMatchObject({ status: 'error' });
      const again = ask();
      again.catch(() => undefined);
      work.gate.open();
      await expect(again).rejects.toMatchObject({ code: 'idempotency_response_not_kept' });
    } finally {
      await client.close();
    }
    expect(work.runs).toBe(1);
    expect(events.map(({ type }) => type)).not.toContain('released');
    await queue.isEmpty();
  });
});

/** The lease ends with the time that an attempt has: neither is over before the other. */
const ENDING = { leaseMs: 400, maxExecutionMs: 400 };

describe('a message whose handler is not done when its time is over', () => {
  it('is acknowledged then, where the handler had done so, and stops the queue no longer', async () => {
    const queue = await openQueue();
    const runs: number[] = [];
    const controller = orders(({ id, channel, message }) => {
      runs.push(id);
      channel.ack(message);
      return id === 1 ? NEVER : undefined;
    }, ENDING);
    await consumers.start(
      queue,
      controller,
      { store: memoryStore(), shutdownTimeoutMs: 0 },
      { prefetch: 1 },
    );
    await emitOrder(queue, 1);
    await emitOrder(queue, 2);
    await until(() => runs.includes(2));
    await queue.isEmpty();
    expect(runs).toEqual([1, 2]);
  });

  it('is kept for it, and not run beside it', async () => {
    const queue = await openQueue();
    const work = new SlowWork();
    const { counted, guard } = arrivals();
    const { events } = await consumers.start(
      queue,
      orders(() => work.run(), ENDING),
      { store: memoryStore() },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emitOrder(queue, 1);
    await until(() => events.some(({ type }) => type === 'lease_lost'));
    expect(await queue.depth()).toMatchObject({ ready: 0, unacked: 1 });
    work.gate.open();
    await queue.isEmpty();
    expect(counted.count).toBe(1);
    expect(work.runs).toBe(1);
    expect(events).toContainEqual(expect.objectContaining({ type: 'completed', late: true }));
  });
});
