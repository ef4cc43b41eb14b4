import { describe, expect, it } from '@jest/globals';
import { Controller, type Type } from '@nestjs/common';
import { Ctx, EventPattern, type RmqContext } from '@nestjs/microservices';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import { payloadField, payloadKey } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import { useBroker } from './support/use-broker.js';

const { consumers, openLimitedQueue } = useBroker();

/** One handler of two events, and the patterns of the events that it has handled. */
function handlerOfBoth(options: IdempotencyOptions): { controller: Type; handled: string[] } {
  const handled: string[] = [];
  @Controller()
  class Orders {
    @Idempotent({
      ...options,
      message: { consumer: 'billing', onFailure: 'dead-letter', ...options.message },
    })
    @EventPattern(['order.placed', 'order.cancelled'])
    follow(@Ctx() context: RmqContext): void {
      handled.push(context.getPattern());
    }
  }
  return { controller: Orders, handled };
}

const ORDER = { order: { id: 1 }, sentAt: 'noon' };

describe('another event with the same payload', () => {
  it.each<[string, Parameters<typeof payloadKey>[0]]>([
    ['all of it', {}],
    ['a member', { include: ['order.id'] }],
  ])('is another message when its key is made of %s', async (_, selection) => {
    const { queue, deadLettered } = await openLimitedQueue();
    const { controller, handled } = handlerOfBoth({ key: payloadKey(selection) });
    await consumers.start(queue, controller, { store: memoryStore() });
    for (const pattern of ['order.placed', 'order.cancelled', 'order.placed', 'order.cancelled']) {
      await queue.emit(pattern, ORDER);
    }
    await queue.isEmpty();
    expect(handled.sort()).toEqual(['order.cancelled', 'order.placed']);
    await deadLettered.holds(0);
  });

  it.each<[string, IdempotencyOptions]>([
    ['the whole payload', {}],
    ['a part of the payload', { fingerprint: { exclude: ['sentAt'] } }],
    ['the bytes of the payload', { fingerprint: 'bytes' }],
  ])(
    'under the same key is dead-lettered as a mismatch, and not treated as a duplicate, when %s is compared',
    async (_, options) => {
      const { queue, deadLettered } = await openLimitedQueue();
      const { controller, handled } = handlerOfBoth({ key: payloadField('order.id'), ...options });
      const { events } = await consumers.start(queue, controller, { store: memoryStore() });
      await queue.emit('order.placed', ORDER);
      await queue.emit('order.placed', ORDER);
      await queue.emit('order.cancelled', ORDER);
      await deadLettered.holds(1);
      await queue.isEmpty();
      expect(handled).toEqual(['order.placed']);
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'rejected', reason: 'mismatch' }),
      );
      expect(events.filter(({ type }) => type === 'replayed')).toHaveLength(1);
    },
  );

  it('that is a plain string is another message, too', async () => {
    const { queue } = await openLimitedQueue();
    const { controller, handled } = handlerOfBoth({ key: payloadKey() });
    await consumers.start(queue, controller, { store: memoryStore() });
    for (const pattern of ['order.placed', 'order.cancelled', 'order.placed']) {
      await queue.emit(pattern, 'order 1');
    }
    await queue.isEmpty();
    expect(handled.sort()).toEqual(['order.cancelled', 'order.placed']);
  });
});
