import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  type ArgumentsHost,
  type INestMicroservice,
  type NestInterceptor,
} from '@nestjs/common';
import { Ctx, EventPattern, MessagePattern, type RmqContext } from '@nestjs/microservices';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { EMPTY, from, map, tap, timeout, type Observable } from 'rxjs';
import { until } from '../../integration/redis/support/until.js';
import { Gate } from '../../support/http/gate.js';
import { deliveredIn, emitOrder, orders, type Channel, type Delivered } from './support/orders.js';
import type { TestQueue } from './support/test-queue.js';
import { useBroker } from './support/use-broker.js';

const { consumers, openQueue, openLimitedQueue } = useBroker();

/** The handled messages and their channels. A channel that the broker has closed delivers nothing more. */
class Handled {
  readonly ids: number[] = [];
  readonly channels = new Set<Channel>();
  readonly again: number[] = [];

  note({ id, channel, message }: Delivered): void {
    this.ids.push(id);
    this.channels.add(channel);
    if (message.fields.redelivered) this.again.push(id);
  }
}

/** Every message was acknowledged once: a second acknowledgement closes the channel, and messages are redelivered. */
async function isAcknowledgedOnce(queue: TestQueue, handled: Handled): Promise<void> {
  const before = [...handled.ids];
  await queue.isEmpty();
  await emitOrder(queue, 99);
  await until(() => handled.ids.length > before.length);
  await queue.isEmpty();
  expect(handled.ids).toEqual([...before, 99]);
  expect(handled.channels.size).toBe(1);
  expect(handled.again).toEqual([]);
}

/** Outside the interceptor: they read the context before the interceptor does. */
const AROUND: [string, (app: INestMicroservice) => unknown][] = [
  [
    'an interceptor, once the handler has returned',
    (app) =>
      app.useGlobalInterceptors({
        intercept: (context, next) => {
          const { channel, message } = deliveredIn(context);
          return next.handle().pipe(tap({ complete: () => channel.ack(message) }));
        },
      }),
  ],
  [
    'an interceptor, for every value of the handler',
    (app) =>
      app.useGlobalInterceptors({
        intercept: (context, next) => {
          const { channel, message } = deliveredIn(context);
          return next.handle().pipe(tap(() => channel.ack(message)));
        },
      }),
  ],
  [
    'a guard, before the interceptor gets the message',
    (app) =>
      app.useGlobalGuards({
        canActivate: (context) => {
          const { channel, message } = deliveredIn(context);
          channel.ack(message);
          return true;
        },
      }),
  ],
];

describe('a message is acknowledged once, and its consumer continues, when it is acknowledged', () => {
  it.each(AROUND)('by %s', async (_, configure) => {
    const queue = await openQueue();
    const handled = new Handled();
    const controller = orders((delivered) => handled.note(delivered));
    await consumers.start(queue, controller, { store: memoryStore() }, { configure });
    for (const id of [1, 2, 3]) await emitOrder(queue, id);
    await until(() => handled.ids.length === 3);
    await isAcknowledgedOnce(queue, handled);
  });

  it('by the handler of another message of its batch', async () => {
    const queue = await openQueue();
    const handled = new Handled();
    const gate = new Gate();
    gate.close();
    const batch: Delivered[] = [];
    const controller = orders(async (delivered) => {
      handled.note(delivered);
      if (delivered.id === 99) return;
      batch.push(delivered);
      if (batch.length < 3) return gate.pass();
      for (const { channel, message } of batch) channel.ack(message);
      gate.open();
    });
    const { events } = await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { prefetch: 3 },
    );
    for (const id of [1, 2, 3]) await emitOrder(queue, id);
    await until(() => handled.ids.length === 3);
    await isAcknowledgedOnce(queue, handled);
    expect(events.filter(({ type }) => type === 'completed')).toHaveLength(4);
  });

  it('by its unprotected handler, beside protected ones on the same channel', async () => {
    const queue = await openQueue();
    const handled = new Handled();
    @Controller()
    class Unprotected {
      @EventPattern(['order.seen'])
      see(@Ctx() context: RmqContext): void {
        (context.getChannelRef() as Channel).ack(context.getMessage());
      }
    }
    const controllers = [orders((delivered) => handled.note(delivered)), Unprotected];
    await consumers.start(queue, controllers, { store: memoryStore() });
    await emitOrder(queue, 1);
    await queue.emit('order.seen', { id: 2 });
    await isAcknowledgedOnce(queue, handled);
  });
});

describe('a message that an outer interceptor dead-letters', () => {
  it('because it failed is dead-lettered, and not requeued', async () => {
    const { queue, deadLettered } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(() => {
      runs += 1;
      throw new Error('planned');
    });
    const deadLetter: NestInterceptor = {
      intercept: (context, next) => {
        const { channel, message } = deliveredIn(context);
        return next.handle().pipe(tap({ error: () => channel.nack(message, false, false) }));
      },
    };
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalInterceptors(deadLetter) },
    );
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(1);
  });
});

describe('a handler that requeues its message', () => {
  it('gets it again although every outcome is kept, because this is not an outcome', async () => {
    const { queue, deadLettered } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(
      ({ channel, message }) => {
        runs += 1;
        if (runs === 1) channel.nack(message);
      },
      { keep: () => true },
    );
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => events.length === 4);
    await queue.isEmpty();
    expect(runs).toBe(2);
    expect(events.map(({ type }) => type)).toEqual([
      'acquired',
      'released',
      'acquired',
      'completed',
    ]);
    await deadLettered.holds(0);
  });
});

/** A filter may do something asynchronous before it acknowledges. */
function filterThat(report: (delivered: Delivered) => unknown) {
  let catches = 0;
  @Catch()
  class Acknowledging {
    catch(_: unknown, host: ArgumentsHost): Observable<unknown> {
      catches += 1;
      const reporting = report(deliveredIn(host));
      return reporting instanceof Promise ? from(reporting) : EMPTY;
    }
  }
  return { filter: new Acknowledging(), catches: () => catches };
}

const requeue = ({ channel, message }: Delivered) => channel.nack(message, false, true);

describe('an exception filter', () => {
  it('that acknowledges late takes effect after the message was redelivered', async () => {
    const { queue, deadLettered } = await openLimitedQueue();
    let runs = 0;
    const controller = orders(
      () => {
        runs += 1;
        throw new Error('planned');
      },
      // Without the filter's acknowledgement the message would be kept for this long.
      { redeliveryDelayMs: 60_000 },
    );
    const { filter } = filterThat(async ({ channel, message }) => {
      await delay(5);
      channel.nack(message, false, false);
    });
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalFilters(filter) },
    );
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(2);
  });

  it('that requeues a message after a timeout does not turn its success into a failure', async () => {
    const queue = await openQueue();
    const gate = new Gate();
    gate.close();
    let runs = 0;
    const controller = orders(async () => {
      runs += 1;
      await gate.pass();
    });
    const { filter, catches } = filterThat(requeue);
    const { events } = await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      {
        configure: (app) => {
          app.useGlobalInterceptors({ intercept: (_, next) => next.handle().pipe(timeout(30)) });
          app.useGlobalFilters(filter);
        },
      },
    );
    await emitOrder(queue, 1);
    await until(() => catches() === 1);
    gate.open();
    await queue.isEmpty();
    expect(runs).toBe(1);
    expect(events.map(({ type }) => type)).toEqual(['acquired', 'completed']);
  });

  it('that requeues a completed message does not make it loop', async () => {
    const queue = await openQueue();
    let runs = 0;
    const controller = orders(() => {
      runs += 1;
    });
    const { filter, catches } = filterThat(requeue);
    const readsNothing: NestInterceptor = {
      intercept: (_, next) => next.handle().pipe(map((value: any) => value.data)),
    };
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      {
        configure: (app) => {
          app.useGlobalInterceptors(readsNothing);
          app.useGlobalFilters(filter);
        },
      },
    );
    await emitOrder(queue, 1);
    await until(() => catches() > 0);
    await queue.isEmpty();
    expect(runs).toBe(1);
    expect(catches()).toBe(1);
  });
});

describe('a message for a handler of requests, to which Nest does not reply', () => {
  it('is an event even with a "replyTo": it is redelivered when it fails', async () => {
    const queue = await openQueue();
    let runs = 0;
    @Controller()
    class Prices {
      @Idempotent({ consumer: 'billing', redeliveryDelayMs: 20 })
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
