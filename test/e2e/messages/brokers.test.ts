import { setImmediate } from 'node:timers/promises';
import { Controller, type INestMicroservice, type Type } from '@nestjs/common';
import {
  type ClientOptions,
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  type MicroserviceOptions,
  MqttRecordBuilder,
  NatsRecordBuilder,
  Payload,
  Transport,
} from '@nestjs/microservices';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  type IdempotencyOptions,
  Idempotent,
} from 'nestjs-idempotency';
import { payloadField } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { KafkaMessage } from 'kafkajs';
import { headers } from '@nats-io/transport-node';
import { lastValueFrom, of, toArray } from 'rxjs';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inStandingTime } from '../../support/clocks/driven-time.js';
import { freePort } from '../../support/servers/free-port.js';
import { sharedServer } from '../../support/servers/shared/shared-server.js';
import { useServer } from '../../support/servers/use-server.js';
import { ServerWithoutBroker } from './support/server-without-broker.js';
import { startConsumer } from './support/start-consumer.js';

let app: INestMicroservice | undefined;
afterEach(() => app?.close());

/** Handles an event and a request, of these patterns. */
function ordersOf(
  { placed, price }: { readonly placed: string; readonly price: string },
  handle: (order: { id: number }) => unknown,
  options: IdempotencyOptions,
): Type {
  const own = { ...options, message: { consumer: 'billing', ...options.message } };
  @Controller()
  class Orders {
    @Idempotent(own)
    @EventPattern([placed])
    place(@Payload() order: { id: number }): unknown {
      return handle(order);
    }

    @Idempotent(own)
    @MessagePattern(price)
    price(@Payload() order: { id: number }): unknown {
      return handle(order);
    }
  }
  return Orders;
}

async function start(
  handle: (order: { id: number }) => unknown,
  options: IdempotencyOptions = {},
  store = new FaultyStore(memoryStore()),
) {
  const controller = ordersOf({ placed: 'orders.placed', price: 'orders.price' }, handle, options);
  const server = new ServerWithoutBroker({});
  app = await startConsumer(
    { strategy: server },
    { controllers: [controller], options: { store } },
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
    const gate = Gate.closed();
    let runs = 0;
    const store = new FaultyStore(memoryStore());
    store.next('begin', unavailable);
    const { deliver, heartbeats } = await start(
      async () => {
        runs += 1;
        await gate.pass();
      },
      { duplicates: { retryAfter: 50, timeout: 50 } },
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
      { duplicates: { retryAfter: 300 }, message: { maxPause: 1_000 } },
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
        message: { redeliveryDelay: redeliveryDelayMs },
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
      { duplicates: { retryAfter: 20 } },
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

/** Other test files that share a broker do not use these. */
const PLACED = 'acknowledges-nothing.placed';
const PRICE = 'acknowledges-nothing.price';

/** How to connect by one transport, and how a message carries its id on it. */
interface TransportUnderTest {
  readonly options: MicroserviceOptions & ClientOptions;
  /** Before each start. */
  prepare?(): Promise<void>;
  /** @param id - `undefined` for a message without an id. */
  record(client: ClientProxy, data: unknown, id: string | undefined): unknown;
}

/** Sets what Nest's client adds to each packet of Redis and of TCP. */
function withMetadata(client: ClientProxy, data: unknown, id: string | undefined): unknown {
  client.setOnDispatchHook((packet) => {
    if (id !== undefined) Object.assign(packet, { metadata: { 'idempotency-key': id } });
  });
  return data;
}

const transports: Record<string, () => Promise<TransportUnderTest>> = {
  NATS: async () => {
    const server = await sharedServer('nats');
    return {
      options: { transport: Transport.NATS, options: { servers: [server.url], queue: 'billing' } },
      record: (_, data, id) => {
        const own = headers();
        if (id !== undefined) own.set('Nats-Msg-Id', id);
        return new NatsRecordBuilder(data).setHeaders(own).build();
      },
    };
  },
  Redis: async () => {
    const server = await sharedServer('redis');
    return {
      options: { transport: Transport.REDIS, options: { host: '127.0.0.1', port: server.port } },
      record: withMetadata,
    };
  },
  'MQTT 5': async () => {
    const server = await sharedServer('mosquitto');
    return {
      options: {
        transport: Transport.MQTT,
        options: { url: server.url, protocolVersion: 5, subscribeOptions: { qos: 1 } },
      },
      record: (_, data, id) =>
        new MqttRecordBuilder(data)
          .setQoS(1)
          .setProperties(id === undefined ? {} : { userProperties: { 'Idempotency-Key': id } })
          .build(),
    };
  },
  TCP: () => {
    const address = { host: '127.0.0.1', port: 0 };
    return Promise.resolve({
      options: { transport: Transport.TCP, options: address },
      // One that was free some time ago may have been taken.
      prepare: async () => {
        address.port = await freePort();
      },
      record: withMetadata,
    });
  },
};

describe.each(Object.keys(transports))('on %s', (name) => {
  const transport = useServer(transports[name]!);
  let app: INestMicroservice | undefined;
  let client: ClientProxy;
  let events: IdempotencyEvent[];
  afterEach(async () => {
    await client.close();
    await app?.close();
  });

  async function start(
    handle: (order: { id: number }) => unknown,
    options: IdempotencyOptions = {},
    store = new FaultyStore(memoryStore()),
  ): Promise<FaultyStore> {
    await transport.prepare?.();
    app = await startConsumer(transport.options, {
      controllers: [ordersOf({ placed: PLACED, price: PRICE }, handle, options)],
      options: { store },
    });
    events = [];
    app.get(IdempotencyEvents).subscribe((event) => events.push(event), { replacesLog: true });
    client = ClientProxyFactory.create(transport.options);
    await client.connect();
    return store;
  }

  const emit = (id: string | undefined, data: object = { id: 1 }) =>
    lastValueFrom(client.emit(PLACED, transport.record(client, data, id)), {
      defaultValue: undefined,
    });
  const ask = (id: string | undefined, data: object = { id: 1 }) =>
    lastValueFrom(client.send<unknown>(PRICE, transport.record(client, data, id)).pipe(toArray()));
  const count = (type: IdempotencyEvent['type']) =>
    events.filter((event) => event.type === type).length;

  it('an event is handled once, however often it is delivered [P04]', async () => {
    const handled: number[] = [];
    await start(({ id }) => handled.push(id));
    for (const id of [1, 1, 2, 1]) await emit(`m${id}`, { id });
    await until(() => count('replayed') === 2);
    expect(handled.sort()).toEqual([1, 2]);
  });

  it('a request gets the same emissions on every retry', async () => {
    let runs = 0;
    await start(({ id }) => {
      runs += 1;
      return of(id, 'two', { three: [3] });
    });
    const first = await ask('m1');
    expect(first).toEqual([1, 'two', { three: [3] }]);
    expect(await ask('m1')).toEqual(first);
    expect(runs).toBe(1);
  });

  it('a request without a key, or with the key of another payload, is rejected with a stable code', async () => {
    await start(({ id }) => id);
    await expect(ask(undefined)).rejects.toMatchObject({ code: 'idempotency_key_missing' });
    await ask('m1', { id: 1 });
    await expect(ask('m1', { id: 2 })).rejects.toEqual({
      status: 'error',
      code: 'idempotency_key_reused',
      message: expect.any(String),
    });
  });

  // What follows is the same on each of these.
  if (name !== 'TCP') return;

  it('an event waits for an unavailable store, because the broker does not redeliver it', async () => {
    let runs = 0;
    const store = new FaultyStore(memoryStore());
    store.next('begin', unavailable, unavailable, unavailable);
    await start(
      () => {
        runs += 1;
      },
      { duplicates: { retryAfter: 10 } },
      store,
    );
    await emit('m1');
    await until(() => count('completed') === 1);
    expect(runs).toBe(1);
  });
});
