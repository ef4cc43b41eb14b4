import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { requireIdempotencyContext, type IdempotencyEvent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { abandon } from '../../support/engine/abandon.js';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { driveTimers } from '../../support/clocks/driven-time.js';
import { useRedis } from '../../support/redis/use-redis.js';
import type { CallingApp } from '../../support/nest/calling-app.js';
import { Orders, type OrderJob } from './support/orders.js';

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
  jest.useRealTimers();
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

describe('a job', () => {
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

  it('is delayed for at least 200 ms, however short "duplicates.retryAfterMs" is', async () => {
    const app = await orders.handle(
      place,
      { store: newStore() },
      { duplicates: { retryAfterMs: 1 } },
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

  it('that always fails is failed after its attempts', async () => {
    await orders.handle(
      async (job) => {
        await place(job);
        throw new Error('planned: no stock');
      },
      { store: newStore() },
    );
    const id = randomUUID();
    const job = await orders.add({ id }, { attempts: 3 });
    await expect(orders.valueOf(job)).rejects.toThrow('planned: no stock');
    expect(await orders.until('failed', job)).toMatchObject({
      attemptsMade: 3,
      failedReason: 'planned: no stock',
    });
    expect(timesOf(id)).toBe(3);
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

  it('without a key fails without further attempts', async () => {
    await orders.handle(place, { store: newStore() });
    const job = await orders.add({ id: '' }, { attempts: 5 });
    await expect(orders.valueOf(job)).rejects.toThrow(/\[idempotency_key_missing\]$/);
    expect(executed).toEqual([]);
  });

  it('whose outcome is unknown is delayed until the lease expires, and then fails', async () => {
    const store = newStore();
    const lease = { onTakeover: 'reject' };
    const options = { lease, scope: () => 'alice', payload: undefined };
    await orders.handle(place, { store }, options as object);
    const { key } = await abandon(store, 'orders.place', randomUUID(), 1_500);
    const job = await orders.add({ id: key }, { attempts: 5 });
    await orders.until('delayed', job);
    await expect(orders.valueOf(job)).rejects.toThrow(/\[idempotency_outcome_unknown\]$/);
    expect(await orders.until('failed', job)).toMatchObject({ attemptsMade: 1 });
    expect(executed).toEqual([]);
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

  it('that runs longer than its lease keeps the lease', async () => {
    const leaseMs = 6_000;
    let passedMs = 0;
    driveTimers(true);
    const store = new FaultyStore(memoryStore({ now: () => Date.now() + passedMs }));
    const app = await orders.handle(place, { store }, { lease: { durationMs: leaseMs } });
    gate.close();
    const id = randomUUID();
    const first = await orders.add({ id });
    await begun.reached(1);
    const second = await orders.add({ id });
    for (let beats = 1; beats <= 4; beats += 1) {
      passedMs += leaseMs / 3;
      jest.advanceTimersByTime(leaseMs / 3);
      await until(() => store.sentOf('extend').length >= beats);
    }
    const rejected = reported(app, 'rejected').length;
    await until(() => reported(app, 'rejected').length > rejected);
    gate.open();
    expect(await orders.valueOf(first)).toMatchObject({ execution: 1 });
    expect(await orders.valueOf(second)).toMatchObject({ execution: 1 });
    expect([reported(app, 'lease_lost'), reported(app, 'takeover')]).toEqual([[], []]);
    expect(timesOf(id)).toBe(1);
  });
});
