import { describe, expect, it } from '@jest/globals';
import { Catch, Controller, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import { EventPattern, type RmqContext } from '@nestjs/microservices';
import { IdempotencyContext, Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import { payloadKey } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { EMPTY, map, type Observable } from 'rxjs';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { deliveredIn, emitOrder, orders } from './support/orders.js';
import type { TestQueue } from './support/test-queue.js';
import { useBroker } from './support/use-broker.js';

const redis = useRedis();
const { consumers, openQueue, openLimitedQueue } = useBroker();

describe('an event', () => {
  it('is handled once, however often it is published, and each copy is acknowledged [P04]', async () => {
    const queue = await openQueue();
    const handled: number[] = [];
    const controller = orders(({ id }) => handled.push(id));
    await consumers.start(queue, controller, { store: memoryStore() });
    for (const id of [1, 1, 2, 1, 2]) {
      await emitOrder(queue, id);
    }
    await queue.isEmpty();
    expect(handled.sort()).toEqual([1, 2]);
  });

  it('that fails twice and then succeeds runs three times, and is acknowledged', async () => {
    const queue = await openQueue();
    let runs = 0;
    const controller = orders(() => {
      runs += 1;
      if (runs < 3) throw new Error('planned');
    });
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => runs === 3);
    await queue.isEmpty();
    expect(runs).toBe(3);
    // No attempt counts as a takeover: each released its key before the redelivery.
    expect(events.filter(({ type }) => type === 'takeover')).toEqual([]);
    expect(events.filter(({ type }) => type === 'completed')).toHaveLength(1);
  });

  it('that always fails is dead-lettered by the broker after its delivery limit', async () => {
    const { queue, deadLettered } = await openLimitedQueue(3);
    let runs = 0;
    const controller = orders(() => {
      runs += 1;
      throw new Error('planned');
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(4);
    await queue.isEmpty();
  });

  it.each([
    ['at once, when "message.onFailure" says so', 'dead-letter' as const],
    ['when a function given as "message.onFailure" says so', () => 'dead-letter' as const],
  ])('that fails is dead-lettered %s', async (_, onFailure) => {
    const { queue, deadLettered } = await openLimitedQueue(10);
    let runs = 0;
    const controller = orders(
      () => {
        runs += 1;
        throw new Error('planned');
      },
      { message: { onFailure } },
    );
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(1);
  });

  it('whose failure is kept is dead-lettered, and so is each of its copies', async () => {
    const { queue, deadLettered } = await openLimitedQueue(10);
    let runs = 0;
    const controller = orders(
      () => {
        runs += 1;
        throw new Error('planned');
      },
      { outcome: () => true },
    );
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await emitOrder(queue, 1);
    await deadLettered.holds(2);
    expect(runs).toBe(1);
  });

  it('whose inner interceptor fails after the handler has failed, and runs again', async () => {
    const queue = await openQueue();
    let runs = 0;
    const failingOnce: NestInterceptor = {
      intercept: (_, next) =>
        next.handle().pipe(
          map(() => {
            if (runs === 1) throw new Error('planned');
          }),
        ),
    };
    const controller = orders(() => (runs += 1), {}, failingOnce);
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => runs === 2);
    await queue.isEmpty();
    expect(events.map(({ type }) => type)).not.toContain('response_diverged');
  });

  it('passes its attempt to the handler', async () => {
    const queue = await openQueue();
    const reported: IdempotencyContext[] = [];
    @Controller()
    class Orders {
      @Idempotent({ message: { consumer: 'billing' } })
      @EventPattern(['order.placed'])
      place(@IdempotencyContext() context: IdempotencyContext): void {
        reported.push(context);
      }
    }
    await consumers.start(queue, Orders, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => reported.length === 1);
    expect(reported).toEqual([
      expect.objectContaining({ key: 'm1', attempt: 1, isTakeover: false, isProtected: true }),
    ]);
  });
});

describe('a copy of an event in progress', () => {
  it('is kept unacknowledged until the first one completes, and is then acknowledged without a redelivery', async () => {
    const queue = await openQueue();
    const gate = new Gate();
    gate.close();
    const deliveries: boolean[] = [];
    const started: number[] = [];
    const store = () => redisStore({ url: redis.url });
    const controller = orders(
      async ({ id }) => {
        started.push(id);
        await gate.pass();
      },
      {
        message: { consumer: queue.name },
        key: (context: ExecutionContext) => {
          const { fields, properties } = context
            .switchToRpc()
            .getContext<RmqContext>()
            .getMessage() as {
            fields: { redelivered: boolean };
            properties: { messageId: string };
          };
          deliveries.push(fields.redelivered);
          return properties.messageId;
        },
      },
    );
    const first = await consumers.start(queue, controller, { store: store() }, { prefetch: 1 });
    const second = await consumers.start(queue, controller, { store: store() }, { prefetch: 1 });
    await emitOrder(queue, 1);
    await emitOrder(queue, 1);
    await until(() => deliveries.length === 2 && started.length === 1);
    gate.open();
    await queue.isEmpty();
    expect(started).toEqual([1]);
    expect(deliveries).toEqual([false, false]);
    const types = [...first.events, ...second.events].map(({ type }) => type);
    expect(types.filter((type) => type === 'replayed')).toHaveLength(1);
  });

  it('is redelivered at most five times a second when it is requeued, and is not lost', async () => {
    const queue = await openQueue();
    const gate = new Gate();
    gate.close();
    let runs = 0;
    const options: IdempotencyOptions = {
      message: { consumer: queue.name },
      duplicates: {
        mode: 'reject',
        // Less than the library allows.
        retryAfterMs: 1,
      },
    };
    const controller = orders(async () => {
      runs += 1;
      await gate.pass();
    }, options);
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => runs === 1);
    const since = Date.now();
    await emitOrder(queue, 1);
    const rejected = () => events.filter(({ type }) => type === 'rejected').length;
    await until(() => rejected() === 6);
    const seconds = (Date.now() - since) / 1_000;
    // The first rejection was not a redelivery.
    expect(seconds).toBeGreaterThanOrEqual((rejected() - 1) / 5);
    gate.open();
    await queue.isEmpty();
    expect(runs).toBe(1);
  });

  it('is requeued at once when its channel closes, and stops waiting', async () => {
    const queue = await openQueue();
    const gate = new Gate();
    gate.close();
    let runs = 0;
    const controller = orders(
      async () => {
        runs += 1;
        await gate.pass();
      },
      { message: { consumer: queue.name } },
    );
    const store = () => redisStore({ url: redis.url });
    await consumers.start(queue, controller, { store: store() }, { prefetch: 1 });
    await emitOrder(queue, 1);
    await until(() => runs === 1);
    const leaving = await consumers.start(queue, controller, { store: store() }, { prefetch: 1 });
    await emitOrder(queue, 1);
    await queue.holds(0);
    await leaving.app.close();
    await queue.holds(1);
    gate.open();
    await queue.isEmpty();
    expect(runs).toBe(1);
  });
});

/** A consumer that counts its executions, on a store that can become unavailable. */
async function onFaultyStore(queue: TestQueue, options: IdempotencyOptions) {
  const store = new FaultyStore(memoryStore());
  let runs = 0;
  const controller = orders(() => {
    runs += 1;
  }, options);
  const consumer = await consumers.start(queue, controller, { store });
  return { ...consumer, store, runs: () => runs };
}

describe('with limits.maxAttemptsPerCaller', () => {
  /** Publishes two orders, of which the limit allows one at a time to each tenant. */
  async function twoOrders(
    queue: TestQueue,
    { maxPauseMs = 60_000, retryAfterMs = 10 },
    ...tenants: (string | undefined)[]
  ) {
    const gate = new Gate();
    gate.close();
    const started: { readonly id: number; readonly redelivered: boolean }[] = [];
    const controller = orders(
      async ({ id, message }) => {
        started.push({ id, redelivered: message.fields.redelivered });
        await gate.pass();
      },
      {
        caller: { scope: (context: ExecutionContext) => deliveredIn(context).tenant ?? [] },
        duplicates: { retryAfterMs },
        message: { maxPauseMs },
      },
    );
    const options = { store: memoryStore(), limits: { maxAttemptsPerCaller: 1 } };
    const { events } = await consumers.start(queue, controller, options);
    for (const [id, tenant] of tenants.entries()) {
      await queue.emit('order.placed', { id, tenant }, { messageId: `m${id}` });
    }
    const rejections = () => events.filter((event) => event.type === 'rejected');
    return { gate, started, rejections };
  }

  it.each([
    ['is held', 60_000, 10, false],
    ['goes back to the broker after the maximum pause', 1_000, 300, true],
  ])(
    "one more event of a tenant %s, and is handled once the tenant's other one has ended",
    async (_, maxPauseMs, retryAfterMs, redelivered) => {
      const { queue, deadLettered } = await openLimitedQueue(100);
      const pauses = { maxPauseMs, retryAfterMs };
      const { gate, started, rejections } = await twoOrders(queue, pauses, 'acme', 'acme');
      // The last one is the first after the redelivery.
      await until(() => rejections().length >= 6);
      expect(new Set(rejections().map(({ reason }) => reason))).toEqual(
        new Set(['too_many_attempts']),
      );
      expect(started).toHaveLength(1);
      gate.open();
      await until(() => started.length === 2);
      await queue.isEmpty();
      expect(started).toEqual([
        { id: 0, redelivered: false },
        { id: 1, redelivered },
      ]);
      expect(await deadLettered.depth()).toMatchObject({ ready: 0 });
    },
  );

  it.each([
    ['other tenants', 'acme', 'other'],
    ['no tenant', undefined, undefined],
  ])('events of %s are handled at the same time', async (_, ...tenants) => {
    const queue = await openQueue();
    const { gate, started } = await twoOrders(queue, {}, ...tenants);
    await until(() => started.length === 2);
    gate.open();
    await queue.isEmpty();
  });
});

describe('while the store is unavailable', () => {
  it('an event is neither handled nor acknowledged, and is handled once after the store has recovered', async () => {
    const queue = await openQueue();
    const { events, store, runs } = await onFaultyStore(queue, {
      duplicates: { retryAfterMs: 10 },
    });
    for (let times = 0; times < 5; times += 1) store.next('begin', unavailable);
    await emitOrder(queue, 1);
    await until(() => runs() === 1);
    await queue.isEmpty();
    expect(events.filter(({ type }) => type === 'store_unavailable')).toHaveLength(5);
    expect(runs()).toBe(1);
  });

  it('the broker gets an event back after the maximum pause', async () => {
    const queue = await openQueue();
    const { app, events, store, runs } = await onFaultyStore(queue, {
      duplicates: { retryAfterMs: 400 },
      message: { maxPauseMs: 1_000 },
    });
    store.always(unavailable, 'begin');
    await emitOrder(queue, 1);
    await until(() => events.length >= 8);
    await app.close();
    await queue.holds(1);
    expect(runs()).toBe(0);
  });
});

describe('when the store becomes unavailable before the outcome is stored', () => {
  it('the broker keeps the event, which is acknowledged once the outcome is stored, and does not run again [P03]', async () => {
    const queue = await openQueue();
    const { events, store, runs } = await onFaultyStore(queue, {
      storeErrors: { saveTimeoutMs: 50 },
      duplicates: { retryAfterMs: 50 },
    });
    store.always(unavailable, 'complete');
    await emitOrder(queue, 1);
    await until(() => events.some(({ type }) => type === 'save_delayed'));
    expect(await queue.depth()).toMatchObject({ ready: 0, unacked: 1 });
    store.heal();
    await queue.isEmpty();
    expect(runs()).toBe(1);
  });
});

describe('the same event', () => {
  it('in two queues on one Redis is handled by both consumers', async () => {
    const [billing, mailing] = [await openQueue(), await openQueue()];
    const handled: string[] = [];
    const start = (queue: TestQueue, consumer: string) =>
      consumers.start(
        queue,
        orders(() => handled.push(consumer), { message: { consumer } }),
        { store: redisStore({ url: redis.url }) },
      );
    await start(billing, 'billing-of-two');
    await start(mailing, 'mailing-of-two');
    for (const queue of [billing, mailing, billing]) {
      await emitOrder(queue, 1);
    }
    await billing.isEmpty();
    await mailing.isEmpty();
    expect(handled.sort()).toEqual(['billing-of-two', 'mailing-of-two']);
  });

  it('of two tenants is handled for each', async () => {
    const queue = await openQueue();
    const handled: string[] = [];
    const tenantOf = (context: ExecutionContext) =>
      context.switchToRpc().getData<{ tenant: string }>().tenant;
    const controller = orders(({ tenant }) => handled.push(tenant!), {
      message: { consumer: queue.name },
      caller: { scope: tenantOf },
    });
    await consumers.start(queue, controller, { store: redisStore({ url: redis.url }) });
    for (const tenant of ['a', 'b', 'a', 'b']) {
      await queue.emit('order.placed', { id: 1, tenant }, { messageId: 'm1' });
    }
    await queue.isEmpty();
    expect(handled.sort()).toEqual(['a', 'b']);
  });

  it("is not handled when the module's scope cannot read it, because tenants could be mixed", async () => {
    const { queue, deadLettered } = await openLimitedQueue(1);
    let runs = 0;
    const errors: unknown[] = [];
    @Catch()
    class Noting {
      catch(error: unknown): Observable<never> {
        errors.push(error);
        return EMPTY;
      }
    }
    const ofRequests = (context: ExecutionContext) =>
      context.switchToHttp().getRequest<{ user: { tenant: string } }>().user.tenant;
    const controller = orders(() => (runs += 1));
    await consumers.start(
      queue,
      controller,
      { store: memoryStore(), caller: { scope: ofRequests } },
      { configure: (app) => app.useGlobalFilters(new Noting()) },
    );
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(0);
    expect(String(errors[0])).toMatch(
      /"caller\.scope" failed for a message .* a "caller\.scope" of its own/,
    );
  });

  it('is not handled when its tenant is missing, because it could share the record of another tenant', async () => {
    const { queue, deadLettered } = await openLimitedQueue(1);
    const handled: number[] = [];
    const controller = orders(({ id }) => handled.push(id), {
      caller: { scope: () => undefined },
    });
    const { app } = await consumers.start(queue, controller, { store: memoryStore() });
    app.useLogger(false);
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(handled).toEqual([]);
  });

  it('published again, with another id and time, is identified by its payload', async () => {
    const queue = await openQueue();
    let runs = 0;
    const controller = orders(
      () => {
        runs += 1;
      },
      {
        key: payloadKey({ exclude: ['at'] }),
        fingerprint: { exclude: ['at'] },
      },
    );
    await consumers.start(queue, controller, { store: memoryStore() });
    await queue.emit('order.placed', { id: 1, at: 1 }, { messageId: 'm1' });
    await queue.emit('order.placed', { at: 2, id: 1 }, { messageId: 'm2' });
    await queue.isEmpty();
    expect(runs).toBe(1);
  });
});
