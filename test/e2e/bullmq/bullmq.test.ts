import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Job, Queue, QueueEvents } from 'bullmq';
import { type IdempotencyEvent, requireIdempotencyContext } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { itWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import type { CallingApp } from '../../support/nest/calling-app.js';
import { TalkingProcess } from '../../support/processes/talking-process.js';
import { type RedisServer, startRedis } from '../../support/redis/redis-server.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { until } from '../../support/waiting/until.js';
import { type OrderJob, Orders } from './support/orders.js';
import { type HeldOrder, LOCK_MS, type WorkerMessage } from './support/worker-settings.js';

describe('a job', () => {
  const redis = useRedis();
  let orders: Orders;
  /** Every execution of the processor, by order. */
  let executed: string[];
  let gate: Gate;
  let begun: Tally;

  beforeEach(() => {
    orders = new Orders({ host: '127.0.0.1', port: redis.port });
    executed = [];
    gate = new Gate();
    begun = new Tally();
  });
  afterEach(async () => {
    gate.open();
    await orders.close();
  });

  const newStore = () => redisStore({ url: redis.url, keyPrefix: orders.name });
  const timesOf = (id: string) => executed.filter((each) => each === id).length;
  const reported = ({ events }: CallingApp, type: IdempotencyEvent['type']) =>
    events.filter((event) => event.type === type);

  /** Waits at the gate, and returns how often it ran. */
  async function place({ data }: OrderJob) {
    executed.push(data.id);
    begun.add();
    await gate.pass();
    const { attempt } = requireIdempotencyContext();
    return { placed: data.id, execution: timesOf(data.id), attempt };
  }

  it('that was added under two job ids runs once, and both return the same value [P04]', async () => {
    await orders.handle(place, { store: newStore() });
    const id = randomUUID();
    const first = await orders.add({ id }, { jobId: 'one' });
    const value = await orders.valueOf(first);
    expect(value).toEqual({ placed: id, execution: 1, attempt: 1 });
    const second = await orders.add({ id }, { jobId: 'two' });
    expect(await orders.valueOf(second)).toEqual(value);
    expect((await orders.until('completed', second)).returnvalue).toEqual(value);
    expect(timesOf(id)).toBe(1);
  });

  it('that is in progress elsewhere is delayed, not failed, even if it has one attempt', async () => {
    const app = await orders.handle(place, { store: newStore() });
    gate.close();
    const id = randomUUID();
    const first = await orders.add({ id }, { attempts: 1 });
    await begun.reached(1);
    const second = await orders.add({ id }, { attempts: 1 });
    const delayed = await orders.until('delayed', second);
    expect(delayed.attemptsMade).toBe(0);
    expect(delayed.delay).toBeGreaterThan(0);
    expect(delayed.delay).toBeLessThanOrEqual(250);
    await until(() => reported(app, 'rejected').length >= 3);
    gate.open();
    expect(await orders.valueOf(second)).toEqual(await orders.valueOf(first));
    expect(await orders.until('completed', second)).toMatchObject({ attemptsMade: 1 });
    expect(timesOf(id)).toBe(1);
  });

  it('is delayed for at least 200 ms, however short "duplicates.retryAfter" is', async () => {
    const app = await orders.handle(
      place,
      { store: newStore() },
      { duplicates: { retryAfter: 1 } },
    );
    gate.close();
    const id = randomUUID();
    await orders.add({ id });
    await begun.reached(1);
    const second = await orders.add({ id });
    const startedAt = performance.now();
    await until(() => reported(app, 'rejected').length >= 6);
    expect(performance.now() - startedAt).toBeGreaterThan(5 * 200 - 50);
    gate.open();
    await orders.valueOf(second);
  });

  it('that fails twice and then succeeds runs three times, as without the library', async () => {
    await orders.handle(
      async (job) => {
        const placed = await place(job);
        if (placed.execution < 3) throw new Error('planned');
        return placed;
      },
      { store: newStore() },
    );
    const id = randomUUID();
    const job = await orders.add({ id }, { attempts: 3, backoff: { type: 'fixed', delay: 10 } });
    expect(await orders.valueOf(job)).toEqual({ placed: id, execution: 3, attempt: 3 });
    expect(await orders.until('completed', job)).toMatchObject({ attemptsMade: 3 });
  });

  it('that reuses a key with another payload fails without further attempts, with the reason', async () => {
    await orders.handle(place, { store: newStore() });
    const id = randomUUID();
    await orders.valueOf(await orders.add({ id, amount: 1 }));
    const other = await orders.add({ id, amount: 2 }, { attempts: 5 });
    await expect(orders.valueOf(other)).rejects.toThrow(/\[idempotency_key_reused\]$/);
    expect(await orders.until('failed', other)).toMatchObject({ attemptsMade: 1 });
    expect(timesOf(id)).toBe(1);
  });

  it('that arrives while the store is unavailable is delayed, and runs once it is back', async () => {
    const store = new FaultyStore(newStore());
    store.always(unavailable, 'begin');
    await orders.handle(place, { store });
    const id = randomUUID();
    const job = await orders.add({ id }, { attempts: 1 });
    await orders.until('delayed', job);
    expect(executed).toEqual([]);
    store.heal();
    expect(await orders.valueOf(job)).toMatchObject({ execution: 1 });
    expect(await orders.until('completed', job)).toMatchObject({ attemptsMade: 1 });
  });

  it('that arrives during the shutdown is delayed, and runs in the next process', async () => {
    const app = await orders.handle(place, { store: newStore() }, {}, { concurrency: 100 });
    gate.close();
    const jobs = [await orders.add({ id: randomUUID() })];
    await begun.reached(1);
    const closing = app.nest.close();
    // The first jobs may still begin. Then none does, while the workers continue to take jobs.
    await until(async () => {
      jobs.push(await orders.add({ id: randomUUID() }, { attempts: 1 }));
      return reported(app, 'rejected').length > 0;
    });
    expect(reported(app, 'rejected')[0]).toMatchObject({ reason: 'shutting_down' });
    gate.open();
    await closing;
    expect(executed.length).toBeLessThan(jobs.length);
    await orders.handle(place, { store: newStore() });
    for (const job of jobs) {
      expect(await orders.valueOf(job)).toMatchObject({ execution: 1 });
      expect(await orders.until('completed', job)).toMatchObject({ attemptsMade: 1 });
    }
  });
});

describe('killed worker', () => {
  type Worker = TalkingProcess<WorkerMessage>;

  const SCRIPT = new URL('support/worker.process.ts', import.meta.url);

  /** Longer than a killed worker's lock on its job, so that the heir also finds the key in progress. */
  const LEASE_MS = LOCK_MS + 30_000;
  const OTHERS = 20;

  let clock: ServerClock;
  let redis: RedisServer;
  let queue: Queue<HeldOrder>;
  let finished: QueueEvents;
  let workers: Worker[] = [];

  const isReady = (messages: readonly WorkerMessage[]) =>
    messages.some(({ said }) => said === 'ready');

  /** The executions that a worker has begun, of one order or of all. */
  function begunBy({ messages }: Worker, id?: string) {
    const begun = messages.filter((message) => message.said === 'begun');
    return id === undefined ? begun : begun.filter((message) => message.id === id);
  }

  beforeAll(async () => {
    clock = new ServerClock();
    redis = await startRedis({ env: clock.env });
    const connection = { host: '127.0.0.1', port: redis.port };
    queue = new Queue('orders', { connection });
    // Each job that is waited for adds a listener.
    queue.setMaxListeners(0);
    finished = new QueueEvents('orders', { connection });
    await finished.waitUntilReady();
  }, START_HOOK_MS);
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.kill()));
    await Promise.all([queue.close(), finished.close()]);
    await redis.stop();
    clock.remove();
  });

  itWithClock(
    'runs only the jobs of a killed worker again, as takeovers on another worker',
    async () => {
      const settings = { redisPort: redis.port, queue: 'orders', leaseMs: LEASE_MS };
      const [victim, heir] = ['victim', 'heir'].map(
        (name) => new TalkingProcess<WorkerMessage>(SCRIPT, { ...settings, name }),
      ) as [Worker, Worker];
      workers = [victim, heir];
      await victim.until(isReady);
      await heir.until(isReady);

      // Either worker may take a job; the victim never finishes those that it takes.
      const held: Job<HeldOrder>[] = [];
      await until(async () => {
        held.push(
          await queue.add('place', { id: randomUUID(), heldBy: 'victim' }, { attempts: 1 }),
        );
        return begunBy(victim).length > 0;
      });
      const others = await Promise.all(
        Array.from({ length: OTHERS }, () => queue.add('place', { id: randomUUID() })),
      );
      await Promise.all(others.map((job) => job.waitUntilFinished(finished)));
      const lost = begunBy(victim).filter(({ id }) => held.some(({ data }) => data.id === id));
      await victim.kill();
      clock.pass(LOCK_MS);
      await until(async () => (await queue.getDelayedCount()) > 0, 20_000);
      // The heir's own locks do not expire with it.
      clock.pass(LOCK_MS / 2);

      const values = await Promise.all(held.map((job) => job.waitUntilFinished(finished)));
      for (const [index, { data }] of held.entries()) {
        const isLost = lost.some(({ id }) => id === data.id);
        expect(values[index]).toEqual({ by: 'heir', attempt: isLost ? 2 : 1 });
        expect(begunBy(heir, data.id)).toEqual([
          { said: 'begun', id: data.id, attempt: isLost ? 2 : 1, isTakeover: isLost },
        ]);
      }
      for (const { data } of others) {
        const begun = [...begunBy(victim, data.id), ...begunBy(heir, data.id)];
        expect(begun).toEqual([{ said: 'begun', id: data.id, attempt: 1, isTakeover: false }]);
      }
    },
    60_000,
  );
});
