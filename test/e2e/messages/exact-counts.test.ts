import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, type ExecutionContext } from '@nestjs/common';
import { EventPattern, RmqContext } from '@nestjs/microservices';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { messageHeader, messageId, payloadKey } from 'nestjs-idempotency/message';
import { redisStore } from 'nestjs-idempotency/redis';
import { until } from '../../support/waiting/until.js';
import { emitOrder } from './support/orders.js';
import { useBroker } from './support/use-broker.js';

/** Memory of an event's record, which does not store the handler's value. */
const RECORD_BYTES_AT_MOST = 232;

const redis = useRedis();
const monitor = useRedisClient(redis);
const { consumers, openQueue } = useBroker();

afterEach(() => void jest.restoreAllMocks());

describe('an event', () => {
  it('takes two commands, each duplicate one more, and stores no value', async () => {
    const queue = await openQueue();
    @Controller()
    class Orders {
      @Idempotent({ message: { consumer: 'billing' } })
      @EventPattern(['order.placed'])
      place() {
        return { receipt: 'x'.repeat(10_000) };
      }
    }
    const { events } = await consumers.start(queue, Orders, {
      store: redisStore({ url: redis.url, push: false }),
    });
    const scripts = async () => {
      const stats = await monitor.info('commandstats');
      const [, calls = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(stats) ?? [];
      return Number(calls);
    };
    // Loads the scripts into the server.
    await emitOrder(queue, 0);
    await until(() => events.some(({ type }) => type === 'completed'));
    const before = await scripts();
    await emitOrder(queue, 1);
    await until(() => events.filter(({ type }) => type === 'completed').length === 2);
    expect((await scripts()) - before).toBe(2);
    await emitOrder(queue, 1);
    await until(() => events.some(({ type }) => type === 'replayed'));
    expect((await scripts()) - before).toBe(3);
    for (const key of await monitor.keys('idem:*')) {
      expect(await monitor.memory('USAGE', key)).toBeLessThanOrEqual(RECORD_BYTES_AT_MOST);
    }
  });

  const several = (context: ExecutionContext) =>
    messageHeader('order')(context) ?? messageId()(context) ?? payloadKey()(context);
  it.each([
    ['the default key', undefined],
    ['a key that is in none of three places', several],
  ])('has its context read once with %s', async (_, key) => {
    const reads = jest.spyOn(RmqContext.prototype, 'getChannelRef');
    const queue = await openQueue();
    @Controller()
    class Orders {
      @Idempotent({ message: { consumer: 'billing' }, key: { ...(key && { from: key }) } })
      @EventPattern(['order.placed'])
      place() {
        return undefined;
      }
    }
    await consumers.start(queue, Orders, { store: memoryStore() });
    await queue.emit('order.placed', { id: 1 }, key === undefined ? { messageId: 'm1' } : {});
    await queue.isEmpty();
    expect(reads).toHaveBeenCalledTimes(1);
  });
});
