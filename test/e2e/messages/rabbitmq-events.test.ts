import { Controller, type ExecutionContext, type Type } from '@nestjs/common';
import {
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  type RmqContext,
  RmqRecordBuilder,
  RpcException,
} from '@nestjs/microservices';
import { afterEach, describe, expect, it } from '@jest/globals';
import { IdempotencyContext, type IdempotencyOptions, Idempotent } from 'nestjs-idempotency';
import { payloadKey } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Begin } from 'nestjs-idempotency/store';
import { EMPTY, lastValueFrom, of, toArray } from 'rxjs';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, heldReply, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { deliveredIn, emitOrder, Noting, orders } from './support/orders.js';
import type { TestQueue } from './support/test-queue.js';
import { useBroker } from './support/use-broker.js';

const redis = useRedis();
const { consumers, openQueue, openLimitedQueue, openRelay } = useBroker();

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
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await emitOrder(queue, 1);
    await deadLettered.holds(2);
    expect(runs).toBe(1);
    // The copy is not redelivered either.
    expect(events.filter(({ type }) => type === 'replayed')).toHaveLength(1);
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
    const gate = Gate.closed();
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
    const gate = Gate.closed();
    let runs = 0;
    const options: IdempotencyOptions = {
      message: { consumer: queue.name },
      duplicates: {
        mode: 'reject',
        // Less than the library allows.
        retryAfter: 1,
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
  it("one more event of a tenant is held, and is handled once the tenant's other one has ended", async () => {
    const queue = await openQueue();
    const gate = Gate.closed();
    const started: { readonly id: number; readonly redelivered: boolean }[] = [];
    const controller = orders(
      async ({ id, message }) => {
        started.push({ id, redelivered: message.fields.redelivered });
        await gate.pass();
      },
      {
        caller: { scope: (context) => deliveredIn(context).tenant },
        duplicates: { retryAfter: 10 },
      },
    );
    const options = { store: memoryStore(), limits: { maxAttemptsPerCaller: 1 } };
    const { events } = await consumers.start(queue, controller, options);
    for (const id of [0, 1]) {
      await queue.emit('order.placed', { id, tenant: 'acme' }, { messageId: `m${id}` });
    }
    const rejections = () => events.filter((event) => event.type === 'rejected');
    await until(() => rejections().length >= 6);
    expect(new Set(rejections().map(({ reason }) => reason))).toEqual(
      new Set(['too_many_attempts']),
    );
    expect(started).toHaveLength(1);
    gate.open();
    await queue.isEmpty();
    expect(started).toEqual([
      { id: 0, redelivered: false },
      { id: 1, redelivered: false },
    ]);
  });
});

describe('while the store is unavailable', () => {
  it('an event is neither handled nor acknowledged, and is handled once after the store has recovered', async () => {
    const queue = await openQueue();
    const { events, store, runs } = await onFaultyStore(queue, {
      duplicates: { retryAfter: 10 },
    });
    for (let times = 0; times < 5; times += 1) store.next('begin', unavailable);
    await emitOrder(queue, 1);
    await until(() => runs() === 1);
    await queue.isEmpty();
    expect(events.filter(({ type }) => type === 'store_unavailable')).toHaveLength(5);
    expect(runs()).toBe(1);
  });
});

describe('when the store becomes unavailable before the outcome is stored', () => {
  it('the broker keeps the event, which is acknowledged once the outcome is stored, and does not run again [P03]', async () => {
    const queue = await openQueue();
    const { events, store, runs } = await onFaultyStore(queue, {
      storeErrors: { saveTimeout: 50 },
      duplicates: { retryAfter: 50 },
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
    const filter = new Noting();
    const ofRequests = (context: ExecutionContext) =>
      context.switchToHttp().getRequest<{ user: { tenant: string } }>().user.tenant;
    const controller = orders(() => (runs += 1));
    await consumers.start(
      queue,
      controller,
      { store: memoryStore(), caller: { scope: ofRequests } },
      { configure: (app) => app.useGlobalFilters(filter) },
    );
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(0);
    expect(String(filter.errors[0])).toMatch(
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

describe('a message whose outcome', () => {
  it('is stored but not confirmed stays with the broker, which redelivers it', async () => {
    const queue = await openQueue();
    const { log, cut, connection } = await openRelay();
    const store = new FaultyStore(redisStore({ url: redis.url }));
    const stored = Gate.closed();
    store.next('complete', heldReply(stored));
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
    expect((await record())?.state).toBe('completed');
    // It is unacknowledged: if its consumer dies now, it is redelivered.
    cut();
    await until(() => log.deliveries.length === 1);
    expect(log.deliveries).toEqual([expect.objectContaining({ key: 'm1', end: 'returned' })]);

    await until(() => log.delivered === 2);
    stored.open();
    await queue.isEmpty();
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
    const failure = Gate.closed();
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
    const { runs, controller } = noting({ duplicates: { retryAfter: 20 } });
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

const clients: ClientProxy[] = [];
afterEach(() => Promise.all(clients.splice(0).map(async (client) => client.close())));

type ApiResponse = () => unknown;

function prices(reply: ApiResponse, options: IdempotencyOptions = {}): Type {
  @Controller()
  class Prices {
    @Idempotent({ ...options, message: { consumer: 'prices', ...options.message } })
    @MessagePattern('price.set')
    set(@Payload() _price: unknown): unknown {
      return reply();
    }
  }
  return Prices;
}

async function asking(
  reply: ApiResponse,
  options?: IdempotencyOptions,
  store = new FaultyStore(memoryStore()),
) {
  const queue = await openQueue();
  let runs = 0;
  const counted = () => {
    runs += 1;
    return reply();
  };
  const { events } = await consumers.start(queue, prices(counted, options), { store });
  const client = ClientProxyFactory.create(queue.transport({ noAck: true }));
  clients.push(client);
  const ask = (id: string, price: unknown = { amount: 1 }): Promise<unknown[]> => {
    const record = new RmqRecordBuilder(price).setOptions({ messageId: id }).build();
    return lastValueFrom(client.send<unknown>('price.set', record).pipe(toArray()));
  };
  const failing = (id: string, price?: unknown) =>
    ask(id, price).then(
      (values) => {
        throw new Error(`it replied with ${values.length} values`);
      },
      (error: unknown) => error,
    );
  return { queue, store, events, ask, failing, runs: () => runs };
}

describe('a request', () => {
  const replies: [string, ApiResponse, unknown[]][] = [
    ['an object', () => ({ id: 1, tags: ['a'] }), [{ id: 1, tags: ['a'] }]],
    ['a promise', async () => 7, [7]],
    ['null', () => null, [null]],
    ['undefined', () => undefined, [undefined]],
    [
      'an Observable with several emissions',
      () => of(1, 'two', { three: 3 }, null),
      [1, 'two', { three: 3 }, null],
    ],
    ['an Observable without emissions', () => EMPTY, []],
    // As Nest's own client reads it from the wire.
    ['a Buffer', () => Buffer.from([1, 2, 255]), [{ type: 'Buffer', data: [1, 2, 255] }]],
  ];

  it('gets the same reply on a retry, whatever it was answered with', async () => {
    let next: ApiResponse = () => undefined;
    const { ask, queue, runs } = await asking(() => next());
    for (const [index, [kind, reply, expected]] of replies.entries()) {
      next = reply;
      expect([kind, await ask(kind)]).toEqual([kind, expected]);
      expect([kind, await ask(kind)]).toEqual([kind, expected]);
      expect(runs()).toBe(index + 1);
    }
    await queue.isEmpty();
  });

  it('whose handler failed gets the error, and may be retried at once', async () => {
    let runs = 0;
    const { ask, failing, queue } = await asking((): unknown => {
      runs += 1;
      if (runs === 1) throw new RpcException({ code: 'SOLD_OUT' });
      return 'sold';
    });
    expect(await failing('m1')).toEqual({ code: 'SOLD_OUT' });
    expect(await ask('m1')).toEqual(['sold']);
    await queue.isEmpty();
  });

  it('whose RpcException is kept gets the same one on a retry', async () => {
    const { failing, runs, queue } = await asking(
      () => {
        throw new RpcException({ code: 'SOLD_OUT' });
      },
      { outcome: () => true },
    );
    expect(await failing('m1')).toEqual({ code: 'SOLD_OUT' });
    expect(await failing('m1')).toEqual({ code: 'SOLD_OUT' });
    expect(runs()).toBe(1);
    await queue.isEmpty();
  });

  it('while the store is unavailable is rejected with the time to retry after', async () => {
    const { ask, failing, store, queue, runs } = await asking(() => 'done', {
      duplicates: { retryAfter: 250 },
    });
    store.next('begin', unavailable);
    expect(await failing('m1')).toMatchObject({
      code: 'idempotency_store_unavailable',
      retryAfterMs: 250,
    });
    expect(await ask('m1')).toEqual(['done']);
    expect(runs()).toBe(1);
    await queue.isEmpty();
  });

  it('that is retried while it is in progress gets the first reply', async () => {
    let reply: (value: string) => void = () => undefined;
    const { ask, runs, events, queue } = await asking(
      () =>
        new Promise((resolve) => {
          reply = resolve;
        }),
    );
    const both = [ask('m1'), ask('m1')];
    await until(() => runs() === 1);
    reply('done');
    expect(await Promise.all(both)).toEqual([['done'], ['done']]);
    expect(runs()).toBe(1);
    expect(events.filter(({ type }) => type === 'replayed')).toHaveLength(1);
    await queue.isEmpty();
  });

  it('whose value was not kept says so', async () => {
    const { ask, failing, queue } = await asking(() => 'done', { outcome: { storeBody: false } });
    expect(await ask('m1')).toEqual(['done']);
    expect(await failing('m1')).toMatchObject({ code: 'idempotency_response_not_kept' });
    await queue.isEmpty();
  });
});
