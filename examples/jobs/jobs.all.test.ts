import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { BullModule } from '@nestjs/bullmq';
import { Injectable } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Queue, QueueEvents } from 'bullmq';
import { requireIdempotencyContext } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { callingApp, type CallingApp } from '../../test/support/nest/calling-app.js';
import { useRedis } from '../../test/support/redis/use-redis.js';
import { FaultyStore, lostRequest } from '../../test/support/stores/faulty-store.js';
import { Mailer } from './mailer.js';
import { OrdersProcessor } from './orders.processor.js';
import { Reports } from './reports.js';
import { Shop, type Order } from './shop.js';

let apps: CallingApp[] = [];

describe('A job of BullMQ', () => {
  const redis = useRedis();
  let queue: Queue;
  let finished: QueueEvents;
  const placed: Order[] = [];

  @Injectable()
  class ListedShop extends Shop {
    override place(order: Order): Promise<{ placed: string }> {
      placed.push(order);
      return Promise.resolve({ placed: order.id });
    }
  }

  beforeEach(async () => {
    placed.length = 0;
    const connection = { host: '127.0.0.1', port: redis.port };
    queue = new Queue('orders', { connection });
    finished = new QueueEvents('orders', { connection });
    await finished.waitUntilReady();
    const imports = [
      BullModule.forRoot({ connection }),
      BullModule.registerQueue({ name: 'orders' }),
    ];
    const providers = [OrdersProcessor, { provide: Shop, useClass: ListedShop }];
    const options = { store: redisStore({ url: redis.url }) };
    apps = [await callingApp({ imports, providers }, options)];
  });
  afterEach(async () => {
    await Promise.all(apps.map(({ nest }) => nest.close()));
    await Promise.all([queue.close(), finished.close()]);
  });

  it('is processed once for each order, and its value is that of every copy', async () => {
    const order = { id: randomUUID(), amount: 4999 };
    const jobs = [await queue.add('place', order), await queue.add('place', order)];
    const values = await Promise.all(jobs.map((job) => job.waitUntilFinished(finished)));
    expect(values).toEqual([{ placed: order.id }, { placed: order.id }]);
    expect(placed).toEqual([order]);
    const other = await queue.add('place', { ...order, amount: 1 }, { attempts: 5 });
    await expect(other.waitUntilFinished(finished)).rejects.toThrow('[idempotency_key_reused]');
    expect(placed).toEqual([order]);
  });
});

describe('A scheduled task', () => {
  const HOUR_MS = 3_600_000;
  /** Of each report that was sent: its day, and whether another process had begun it. */
  const sent: { day: string; isTakeover: boolean }[] = [];
  let hangs: boolean;
  let failures: number;

  @Injectable()
  class ListedMailer extends Mailer {
    override async sendReport(): Promise<void> {
      const { key, isTakeover } = requireIdempotencyContext();
      if (hangs && !isTakeover) await new Promise(() => undefined);
      if (failures-- > 0) throw new Error('planned: the mail server is down');
      sent.push({ day: key, isTakeover });
    }
  }

  beforeEach(() => {
    // Those of Cron, and the library's.
    jest.useFakeTimers({ now: new Date('2030-01-01T00:00:00Z') });
    sent.length = 0;
    hangs = false;
    failures = 0;
  });
  afterEach(() => void jest.useRealTimers());

  async function startTwo(): Promise<FaultyStore[]> {
    const records = memoryStore({ now: () => Date.now() });
    const stores = [new FaultyStore(records), new FaultyStore(records)];
    apps = await Promise.all(
      stores.map((store) =>
        callingApp(
          {
            imports: [ScheduleModule.forRoot()],
            providers: [Reports, { provide: Mailer, useClass: ListedMailer }],
          },
          { store, limits: { shutdownTimeout: '0ms' } },
        ),
      ),
    );
    for (const { nest } of apps) nest.enableShutdownHooks();
    return stores;
  }

  async function stop(): Promise<void> {
    const closing = Promise.all(apps.map(({ nest }) => nest.close()));
    await jest.advanceTimersByTimeAsync(60_000);
    await closing;
  }

  it('runs once at each time in all processes together', async () => {
    await startTwo();
    await jest.advanceTimersByTimeAsync(48 * HOUR_MS);
    expect(sent).toEqual([
      { day: '2030-01-01', isTakeover: false },
      { day: '2030-01-02', isTakeover: false },
    ]);
    const types = apps.flatMap(({ events }) => events.map(({ type }) => type));
    expect(types.filter((type) => type === 'replayed')).toHaveLength(2);
    await stop();
  });

  it('that throws runs again at once in a waiting process, once in each', async () => {
    const attempts = () =>
      apps.flatMap(({ events }) => events.filter(({ type }) => type === 'acquired')).length;
    await startTwo();
    failures = 1;
    await jest.advanceTimersByTimeAsync(24 * HOUR_MS);
    expect([attempts(), sent.length]).toEqual([2, 1]);
    failures = 9;
    await jest.advanceTimersByTimeAsync(24 * HOUR_MS);
    expect([attempts(), sent.length]).toEqual([4, 1]);
    await stop();
  });

  it('is taken over by a waiting process if the one that runs it dies', async () => {
    const stores = await startTwo();
    hangs = true;
    await jest.advanceTimersByTimeAsync(3 * HOUR_MS + 1_000);
    expect(sent).toEqual([]);
    const [owner] = stores.filter((_, index) =>
      apps[index]!.events.some(({ type }) => type === 'acquired'),
    );
    owner!.always(lostRequest, 'begin', 'extend', 'complete', 'release', 'inspect');
    await jest.advanceTimersByTimeAsync(30_000);
    expect(sent).toEqual([{ day: '2030-01-01', isTakeover: true }]);
    await stop();
  });
});
