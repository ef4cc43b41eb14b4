import { useRedis } from '../../support/redis/use-redis.js';
import { describe, expect, it } from '@jest/globals';
import { isDeepStrictEqual } from 'node:util';
import { Catch, Controller, Module, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern, MessagePattern, type MicroserviceOptions } from '@nestjs/microservices';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { EMPTY, type Observable } from 'rxjs';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import { emitOrder, orders } from './support/orders.js';
import { startConsumer } from './support/start-consumer.js';
import { useBroker } from './support/use-broker.js';

const redis = useRedis();
const { consumers, openQueue, openLimitedQueue, openRelay } = useBroker();

describe('a message that cannot be handled', () => {
  it('because it has no key fails with a remedy, and is not lost', async () => {
    const { queue, deadLettered } = await openLimitedQueue();
    const errors: unknown[] = [];
    @Catch()
    class Noting {
      catch(error: unknown): Observable<never> {
        errors.push(error);
        return EMPTY;
      }
    }
    let runs = 0;
    const controller = orders(() => {
      runs += 1;
    });
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalFilters(new Noting()) },
    );
    await queue.emit('order.placed', { id: 1 });
    await deadLettered.holds(1);
    expect(runs).toBe(0);
    expect(errors[0]).toMatchObject({ code: 'idempotency_key_missing' });
    expect(String(errors[0])).toMatch(/messageId.*payloadKey.*required/s);
  });

  it('because it has no key is handled unprotected, and acknowledged, with required: false', async () => {
    const { queue } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(() => (runs += 1), { key: { required: false } });
    await consumers.start(queue, controller, { store: memoryStore() });
    await queue.emit('order.placed', { id: 1 });
    await queue.emit('order.placed', { id: 1 });
    await queue.isEmpty();
    expect(runs).toBe(2);
  });

  it('because its id belongs to another message is dead-lettered and reported', async () => {
    const { queue, deadLettered } = await openLimitedQueue();
    const handled: number[] = [];
    const controller = orders(({ id }) => handled.push(id), {
      message: { onFailure: 'dead-letter' },
    });
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await queue.emit('order.placed', { id: 2 }, { messageId: 'm1' });
    await deadLettered.holds(1);
    expect(handled).toEqual([1]);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'rejected', reason: 'mismatch' }),
    );
  });
});

describe('an event with a "replyTo"', () => {
  it('is still an event: when it fails it is requeued', async () => {
    const { queue } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(() => {
      runs += 1;
      if (runs === 1) throw new Error('planned');
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    const replies = { replyTo: 'no-such-queue', correlationId: 'c1' };
    await queue.emit('order.placed', { id: 1 }, { messageId: 'm1', ...replies });
    await until(() => runs === 2);
    await queue.isEmpty();
  });
});

describe('a message for a handler of requests, to which Nest does not reply', () => {
  it('is an event even with a "replyTo": it is redelivered when it fails', async () => {
    const queue = await openQueue();
    let runs = 0;
    @Controller()
    class Prices {
      @Idempotent({ message: { consumer: 'billing', redeliveryDelayMs: 20 } })
      @MessagePattern('order.price')
      price(): void {
        runs += 1;
        if (runs < 3) throw new Error('planned');
      }
    }
    await consumers.start(queue, Prices, { store: memoryStore() });
    // Other frameworks set these for every message. Nest counts messages with an "id" in their content as requests.
    const replies = { replyTo: 'no-such-queue', correlationId: 'c1' };
    await queue.emit('order.price', { id: 1 }, { messageId: 'm1', ...replies });
    await until(() => runs === 3);
    await queue.isEmpty();
  });
});

describe('a shutdown', () => {
  it('of a hybrid application returns messages to other consumers before it finishes those in progress', async () => {
    const queue = await openQueue();
    const { log, connection } = await openRelay();
    const gate = new Gate();
    gate.close();
    const handled: number[] = [];
    const controller = orders(async ({ id }) => {
      handled.push(id);
      await gate.pass();
    });
    @Module({
      imports: [IdempotencyModule.forRoot({ store: memoryStore() })],
      controllers: [controller],
    })
    class Hybrid {}
    const app = await NestFactory.create(Hybrid, { logger: false });
    app.connectMicroservice<MicroserviceOptions>(
      queue.transport({ prefetchCount: 2, ...connection }),
    );
    await app.startAllMicroservices();
    await app.init();
    await emitOrder(queue, 1);
    await until(() => handled.length === 1);
    const closed = app.close();
    for (const id of [2, 3, 4]) await emitOrder(queue, id);
    // Its consumer has ended.
    await until(async () =>
      isDeepStrictEqual(await queue.depth(), { ready: 3, unacked: 1, consumers: 0 }),
    );
    expect(log.deliveries).toEqual([
      expect.objectContaining({ key: 'm2', end: 'requeued', method: 'nack' }),
    ]);
    gate.open();
    await closed;
    expect(handled).toEqual([1]);
    expect(log.closes).toMatchObject([{ by: 'consumer' }]);
  });

  it('leaves unstarted messages to the next consumer, and finishes started ones', async () => {
    const queue = await openQueue();
    const handled: number[] = [];
    let release: () => void = () => undefined;
    const busy = new Promise<void>((resolve) => {
      release = resolve;
    });
    const first = orders(async ({ id }) => {
      handled.push(id);
      await busy;
    });
    const store = () => redisStore({ url: redis.url });
    const { app } = await consumers.start(queue, first, { store: store() });
    await emitOrder(queue, 1);
    await until(() => handled.length === 1);
    const closed = app.close();
    await emitOrder(queue, 2);
    release();
    await closed;
    await queue.holds(2);
    await consumers.start(
      queue,
      orders(({ id }) => handled.push(id)),
      { store: store() },
    );
    await queue.isEmpty();
    expect(handled).toEqual([1, 2]);
  });
});

describe('the application does not start', () => {
  const started = async (controllers: Type[], transport: object = {}) => {
    const queue = await openQueue();
    return startConsumer(queue.transport(transport), {
      controllers,
      options: { store: memoryStore() },
    });
  };

  it('with "noAck": true, because the broker would forget a message as soon as it is sent', async () => {
    const controllers = [orders(() => undefined)];
    await expect(started(controllers, { noAck: true })).rejects.toThrow(/"noAck" to false/);
    // Nest's default.
    await expect(started(controllers, { noAck: undefined })).rejects.toThrow(/"noAck" to false/);
  });

  it('without the option "message.consumer"', async () => {
    const controllers = [orders(() => undefined, { message: { consumer: undefined } } as never)];
    await expect(started(controllers)).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringMatching(/Orders\.place .* "message\.consumer"/),
    });
  });

  it('with two handlers of one event, which would share one acknowledgement', async () => {
    @Controller()
    class Others {
      @EventPattern(['order.placed'])
      place() {
        return undefined;
      }
    }
    await expect(started([orders(() => undefined), Others])).rejects.toThrow(
      /Orders\.place and Others\.place .*one delivery/,
    );
  });

  it('unless the handlers are unprotected or reply', async () => {
    @Controller()
    class Unprotected {
      @EventPattern(['order.placed'])
      place() {
        return undefined;
      }
      @MessagePattern('order.price')
      price() {
        return 1;
      }
    }
    const queue = await openQueue();
    await consumers.start(queue, Unprotected, { store: memoryStore() }, { noAck: true });
    await queue.isConsumed();
  });
});
