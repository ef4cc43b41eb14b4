import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { Redis } from 'ioredis';
import { Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { until } from '../../integration/redis/support/until.js';
import { startRabbitMq, type RabbitMqServer } from '../../support/rabbitmq-server.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { Consumers } from './support/consumers.js';
import { TestQueue } from './support/test-queue.js';

/** What an event's record takes: nothing is kept of what the handler returned. */
const RECORD_BYTES_AT_MOST = 232;

let broker: RabbitMqServer;
let redis: RedisServer;
let monitor: Redis;
const consumers = new Consumers();
beforeAll(async () => {
  [broker, redis] = await Promise.all([startRabbitMq(), startRedis()]);
  monitor = new Redis(redis.url);
}, 60_000);
afterEach(() => consumers.close());
afterAll(async () => {
  monitor.disconnect();
  await Promise.all([broker.stop(), redis.stop()]);
});

describe('an event', () => {
  it('takes two commands, each copy of it one more, and a record without its value', async () => {
    const queue = consumers.with(await TestQueue.open(broker));
    @Controller()
    class Orders {
      @Idempotent({ consumer: 'billing' })
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
    // The server learns the scripts' texts.
    await queue.emit('order.placed', { id: 0 }, { messageId: 'm0' });
    await until(() => events.some(({ type }) => type === 'completed'));
    const before = await scripts();
    await queue.emit('order.placed', { id: 1 }, { messageId: 'm1' });
    await until(() => events.filter(({ type }) => type === 'completed').length === 2);
    expect((await scripts()) - before).toBe(2);
    await queue.emit('order.placed', { id: 1 }, { messageId: 'm1' });
    await until(() => events.some(({ type }) => type === 'replayed'));
    expect((await scripts()) - before).toBe(3);
    for (const key of await monitor.keys('idem:*')) {
      expect(await monitor.memory('USAGE', key)).toBeLessThanOrEqual(RECORD_BYTES_AT_MOST);
    }
  });
});
