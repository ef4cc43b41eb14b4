import { useRedis } from '../../support/use-redis.js';
import { describe, expect, it } from '@jest/globals';
import { Catch, Controller, type ArgumentsHost, type Type } from '@nestjs/common';
import { EventPattern, MessagePattern } from '@nestjs/microservices';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { EMPTY, type Observable } from 'rxjs';
import { until } from '../../integration/redis/support/until.js';
import { deliveredIn, emitOrder, orders, type Channel } from './support/orders.js';
import { startConsumer } from './support/start-consumer.js';
import { useBroker } from './support/use-broker.js';

const redis = useRedis();
const { consumers, openQueue, openLimitedQueue } = useBroker();

describe('a handler that uses the channel itself', () => {
  it('may acknowledge its message: the broker gets one ack, and the channel stays open', async () => {
    const { queue } = await openLimitedQueue();
    const handled: number[] = [];
    const controller = orders(({ channel, message, id }) => {
      channel.ack(message);
      handled.push(id);
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    for (const id of [1, 1, 2]) await emitOrder(queue, id);
    await queue.isEmpty();
    // A channel that the broker had closed would deliver nothing more.
    await emitOrder(queue, 3);
    await until(() => handled.length === 3);
    expect(handled).toEqual([1, 2, 3]);
  });

  it.each([
    ['nack', (channel: Channel, message: object) => channel.nack(message, false, false)],
    ['reject', (channel: Channel, message: object) => channel.reject(message, false)],
  ])('may dead-letter its message with %s: returning is then not a success', async (_, reject) => {
    const { queue, deadLettered } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(({ channel, message }) => {
      runs += 1;
      reject(channel, message);
    });
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(1);
    expect(events.map(({ type }) => type)).toEqual(['acquired', 'released']);
  });

  it('may do so from any context, for example from the timer that writes a batch', async () => {
    const { queue, deadLettered } = await openLimitedQueue();
    let reject: () => void = () => undefined;
    // Created outside of any message, like the timer of a batch.
    const flush = setInterval(() => reject(), 10);
    const controller = orders(
      ({ channel, message }) =>
        new Promise<void>((resolve) => {
          reject = () => {
            channel.nack(message, false, false);
            resolve();
          };
        }),
    );
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    clearInterval(flush);
    expect(events.map(({ type }) => type)).toEqual(['acquired', 'released']);
  });

  it('may requeue its message, and gets it again', async () => {
    const { queue } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(({ channel, message }) => {
      runs += 1;
      if (runs === 1) channel.nack(message);
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => runs === 2);
    await queue.isEmpty();
  });

  it('that acknowledges its message and then fails does not get it again', async () => {
    const { queue } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(({ channel, message }) => {
      runs += 1;
      channel.ack(message);
      throw new Error('planned');
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => runs === 1);
    await queue.isEmpty();
    expect(runs).toBe(1);
  });

  it.each([
    ['ack(message, true)', (channel: Channel, message: object) => channel.ack(message, true)],
    ['ackAll()', (channel: Channel) => channel.ackAll()],
  ])(
    'may not call %s, because outcomes of other messages may not be stored yet',
    async (_, acknowledge) => {
      const { queue, deadLettered } = await openLimitedQueue();
      const errors: unknown[] = [];
      const controller = orders(
        ({ channel, message }) => {
          try {
            acknowledge(channel, message);
          } catch (error) {
            errors.push(error);
            throw error;
          }
        },
        { onFailure: 'dead-letter' },
      );
      await consumers.start(queue, controller, { store: memoryStore() });
      await emitOrder(queue, 1);
      await deadLettered.holds(1);
      expect(errors).toEqual([expect.objectContaining({ code: 'idempotency_options_invalid' })]);
    },
  );

  it('can use the other methods of its channel', async () => {
    const { queue } = await openLimitedQueue();
    const counts: number[] = [];
    const controller = orders(async ({ channel }) => {
      counts.push((await channel.checkQueue(queue.name)).messageCount);
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => counts.length === 1);
    expect(counts).toEqual([0]);
  });
});

describe('an exception filter', () => {
  it('decides before the interceptor: its acknowledgement applies', async () => {
    const { queue, deadLettered } = await openLimitedQueue();
    @Catch()
    class DeadLettered {
      catch(_: unknown, host: ArgumentsHost): Observable<never> {
        const { channel, message } = deliveredIn(host);
        channel.nack(message, false, false);
        return EMPTY;
      }
    }
    let runs = 0;
    const controller = orders(() => {
      runs += 1;
      throw new Error('planned');
    });
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalFilters(new DeadLettered()) },
    );
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(1);
  });
});

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
    const controller = orders(() => (runs += 1), { required: false });
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
      onFailure: 'dead-letter',
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

describe('a shutdown', () => {
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

  it('without the option "consumer"', async () => {
    const controllers = [orders(() => undefined, { consumer: undefined } as never)];
    await expect(started(controllers)).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringMatching(/Orders\.place .* "consumer"/),
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
