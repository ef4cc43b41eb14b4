import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, type INestMicroservice, type Type } from '@nestjs/common';
import { EventPattern, MessagePattern, Payload } from '@nestjs/microservices';
import {
  IdempotencyEvents,
  Idempotent,
  type IdempotencyEvent,
  type IdempotencyOptions,
} from 'nestjs-idempotency';
import { payloadField } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { KafkaMessage } from 'kafkajs';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inStandingTime } from '../../support/clocks/standing-time.js';
import { ServerWithoutBroker } from './support/server-without-broker.js';
import { startConsumer } from './support/start-consumer.js';

let app: INestMicroservice | undefined;
afterEach(() => app?.close());

async function start(
  handle: (order: { id: number }) => unknown,
  options: IdempotencyOptions = {},
  store = new FaultyStore(memoryStore()),
) {
  @Controller()
  class Orders {
    @Idempotent({ ...options, message: { consumer: 'billing-group', ...options.message } })
    @EventPattern(['orders.placed'])
    place(@Payload() order: { id: number }): unknown {
      return handle(order);
    }

    @Idempotent({ ...options, message: { consumer: 'billing-group', ...options.message } })
    @MessagePattern('orders.price')
    price(@Payload() order: { id: number }): unknown {
      return handle(order);
    }
  }
  const server = new ServerWithoutBroker({});
  app = await startConsumer(
    { strategy: server },
    { controllers: [Orders as Type], options: { store } },
  );
  const events: IdempotencyEvent[] = [];
  app.get(IdempotencyEvents).subscribe((event) => events.push(event), { replacesLog: true });
  let heartbeats = 0;
  let groupFailure: Error | undefined;
  const deliver = (offset: number, more: Partial<KafkaMessage> = {}, topic = 'orders.placed') =>
    server.deliver(
      topic,
      offset,
      { key: Buffer.from('7'), value: Buffer.from(JSON.stringify({ id: 7 })), ...more },
      async () => {
        heartbeats += 1;
        if (groupFailure !== undefined) throw groupFailure;
        return Promise.resolve();
      },
    );
  const loseGroup = () => {
    groupFailure = new Error('planned: the group is rebalancing');
  };
  return { server, events, deliver, loseGroup, heartbeats: () => heartbeats };
}

describe('a Kafka event', () => {
  it('that is fetched again, for example after a rebalance, is not handled again, and its offset is committed [P04]', async () => {
    let runs = 0;
    const { deliver } = await start(() => {
      runs += 1;
    });
    await deliver(1);
    await deliver(1);
    await deliver(2);
    expect(runs).toBe(2);
  });

  it('that was sent twice is identified by its header', async () => {
    let runs = 0;
    const { deliver } = await start(() => {
      runs += 1;
    });
    const headers = { 'Idempotency-Key': Buffer.from('order-7') };
    await deliver(1, { headers });
    await deliver(2, { headers });
    expect(runs).toBe(1);
  });

  it('that fails is not committed, and is handled when it is fetched again', async () => {
    let runs = 0;
    const { deliver } = await start(() => {
      runs += 1;
      if (runs === 1) throw new Error('planned');
    });
    await expect(deliver(1)).rejects.toBeDefined();
    await deliver(1);
    expect(runs).toBe(2);
  });

  it('is paused, with heartbeats, while the store is unavailable or another consumer handles it', async () => {
    const gate = new Gate();
    gate.close();
    let runs = 0;
    const store = new FaultyStore(memoryStore());
    store.next('begin', unavailable);
    const { deliver, heartbeats } = await start(
      async () => {
        runs += 1;
        await gate.pass();
      },
      { duplicates: { retryAfterMs: 50, timeoutMs: 50 } },
      store,
    );
    const first = deliver(1);
    await until(() => runs === 1);
    const second = deliver(1);
    await until(() => heartbeats() >= 3);
    gate.open();
    await Promise.all([first, second]);
    expect(runs).toBe(1);
  });

  it('that stays blocked for longer than the maximum pause is not committed', async () => {
    const store = new FaultyStore(memoryStore());
    store.always(unavailable, 'begin');
    const { deliver } = await start(
      () => undefined,
      { duplicates: { retryAfterMs: 300 }, message: { maxPauseMs: 1_000 } },
      store,
    );
    await expect(deliver(1)).rejects.toBeDefined();
  });
});

describe('a Kafka event whose consumer loses its group', () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => unhandled.push(error);
  beforeEach(() => {
    unhandled.length = 0;
    process.on('unhandledRejection', note);
  });
  afterEach(() => {
    process.off('unhandledRejection', note);
  });

  it('that was rejected leaves nothing behind that could fail later', async () => {
    const redeliveryDelayMs = 20;
    await inStandingTime(async ({ pass, flow }) => {
      const { deliver, heartbeats, loseGroup } = await start(() => undefined, {
        key: payloadField('nowhere'),
        message: { redeliveryDelayMs },
      });
      loseGroup();
      await flow(expect(deliver(1)).rejects.toBeDefined());
      // A timer of the event would fire within this time.
      await pass(redeliveryDelayMs);
      await setImmediate();
      expect(heartbeats()).toBe(0);
      expect(unhandled).toEqual([]);
    });
  });

  it('that is paused rejects, without an unhandled rejection', async () => {
    const store = new FaultyStore(memoryStore());
    store.always(unavailable, 'begin');
    const { deliver, loseGroup } = await start(
      () => undefined,
      { duplicates: { retryAfterMs: 20 } },
      store,
    );
    loseGroup();
    await expect(deliver(1)).rejects.toBeDefined();
    await setImmediate();
    expect(unhandled).toEqual([]);
  });
});

describe('a Kafka request', () => {
  it('is answered from its record when it is retried', async () => {
    let runs = 0;
    const { deliver, server } = await start(({ id }) => {
      runs += 1;
      return { id, runs };
    });
    const headers = {
      kafka_replyTopic: Buffer.from('orders.price.reply'),
      kafka_correlationId: Buffer.from('c1'),
      'Idempotency-Key': Buffer.from('price-7'),
    };
    await deliver(1, { headers }, 'orders.price');
    await deliver(2, { headers }, 'orders.price');
    await until(() => server.sent.filter((one) => 'response' in (one as object)).length === 2);
    const replies = server.sent.filter((one) => 'response' in (one as object));
    expect(replies).toEqual([
      expect.objectContaining({ response: { id: 7, runs: 1 } }),
      expect.objectContaining({ response: { id: 7, runs: 1 } }),
    ]);
  });
});
