import { afterAll, afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, type INestMicroservice } from '@nestjs/common';
import { IdempotencyHealth } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { connect } from 'amqplib';
import { unpackRabbitMq, type FoundRabbitMq } from '../../support/rabbitmq/installation.js';
import { startRabbitMq } from '../../support/rabbitmq/rabbitmq-server.js';
import { useServer } from '../../support/servers/use-server.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import { Consumers } from './support/consumers.js';
import { emitOrder, orders, type Delivered } from './support/orders.js';
import { TestQueue } from './support/test-queue.js';

jest.setTimeout(60_000);

/** How often the queue redelivers a message. */
const LIMIT = 2;

/** So many requeues are not counted. */
const MORE = LIMIT + 4;

/** Debian 12's, 13's and the newest one. */
const unpacked = await Promise.all((['trixie', 'sid'] as const).map(unpackRabbitMq));
const brokers: readonly (readonly [name: string, programs: FoundRabbitMq | undefined])[] = [
  ['RabbitMQ as it is installed', undefined],
  ...unpacked.flatMap((found) =>
    found === undefined ? [] : [[`RabbitMQ ${found.version}`, found] as const],
  ),
];
console.log(`Limits of deliveries on ${brokers.map(([name]) => name).join(', ')}`);

afterAll(() => {
  for (const found of unpacked) found?.remove();
});

function fail(): never {
  throw new Error('planned');
}

const FAULTS: Readonly<Record<string, (delivered: Delivered) => unknown>> = {
  'a failure': fail,
  'a message that its handler rejects': ({ channel, message }) => channel.reject(message, true),
  'a message that its handler rejects, and fails': ({ channel, message }) => {
    channel.reject(message, true);
    fail();
  },
};

describe.each(brokers)('%s', (_, programs) => {
  const server = useServer(() => startRabbitMq(programs && { programs }));
  const consumers = new Consumers();
  afterEach(() => consumers.close());

  /** Whether it counts a `reject` alone, as from 4.3 on. */
  async function countsFaultsAlone(): Promise<boolean> {
    const connection = await connect(server.url);
    const { version } = connection.connection.serverProperties;
    await connection.close();
    const [major = 0, minor = 0] = version.split('.').map(Number);
    return major > 4 || (major === 4 && minor >= 3);
  }

  async function openQueues() {
    const deadLettered = consumers.with(await TestQueue.open(server));
    const queue = consumers.with(await TestQueue.limited(server, deadLettered, LIMIT));
    return { queue, deadLettered };
  }

  it.each(Object.entries(FAULTS))('dead-letters at its limit %s', async (_, handle) => {
    const { queue, deadLettered } = await openQueues();
    let runs = 0;
    const controller = orders((delivered) => {
      runs += 1;
      return handle(delivered);
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await deadLettered.holds(1);
    expect(runs).toBe(LIMIT + 1);
    await queue.isEmpty();
  });

  it('dead-letters at its limit a message without a key', async () => {
    const { queue, deadLettered } = await openQueues();
    const controller = orders(() => undefined);
    const { events } = await consumers.start(queue, controller, { store: memoryStore() });
    await queue.emit('order.placed', { id: 1 });
    await deadLettered.holds(1);
    expect(events.filter(({ type }) => type === 'invalid_request')).toHaveLength(LIMIT + 1);
  });

  it("counts a handler's own nack as it counts any nack", async () => {
    const { queue, deadLettered } = await openQueues();
    let runs = 0;
    const controller = orders(({ channel, message }) => {
      runs += 1;
      if (runs < MORE) channel.nack(message, false, true);
    });
    await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    const isFree = await countsFaultsAlone();
    if (!isFree) await deadLettered.holds(1);
    await until(() => runs === (isFree ? MORE : LIMIT + 1));
    await queue.isEmpty();
  });

  describe('counts faults alone, or every redelivery, where a message is returned', () => {
    let deliveries: number;
    beforeEach(() => {
      deliveries = 0;
    });
    const counting = (app: INestMicroservice) =>
      app.useGlobalGuards({
        canActivate: () => {
          deliveries += 1;
          return true;
        },
      });

    /** @param goOn - lets the message be handled. */
    async function expectReturned(
      { queue, deadLettered }: Awaited<ReturnType<typeof openQueues>>,
      goOn: () => void,
    ) {
      const isFree = await countsFaultsAlone();
      if (isFree) await until(() => deliveries >= MORE, 30_000);
      else await until(async () => (await deadLettered.depth()).ready === 1, 30_000);
      goOn();
      await queue.isEmpty();
      expect((await deadLettered.depth()).ready).toBe(isFree ? 0 : 1);
      if (!isFree) expect(deliveries).toBe(LIMIT + 1);
    }

    it('because a copy is in progress', async () => {
      const gate = Gate.closed();
      let runs = 0;
      const controller = orders(
        async () => {
          runs += 1;
          await gate.pass();
        },
        { duplicates: { mode: 'reject', retryAfter: 1_000 } },
      );
      const store = memoryStore();
      const first = consumers.with(await TestQueue.open(server));
      await consumers.start(first, controller, { store });
      const queues = await openQueues();
      await consumers.start(queues.queue, controller, { store }, { configure: counting });
      await emitOrder(first, 1);
      await until(() => runs === 1);
      await emitOrder(queues.queue, 1);
      await expectReturned(queues, () => gate.open());
      expect(runs).toBe(1);
    });

    it('because the store is unavailable', async () => {
      const store = new FaultyStore(memoryStore());
      store.always(unavailable, 'begin');
      let runs = 0;
      const controller = orders(() => (runs += 1), {
        duplicates: { retryAfter: 400 },
        message: { maxPause: 1_000 },
      });
      const queues = await openQueues();
      await consumers.start(queues.queue, controller, { store }, { configure: counting });
      await emitOrder(queues.queue, 1);
      await expectReturned(queues, () => store.heal());
      expect(runs).toBe((await countsFaultsAlone()) ? 1 : 0);
    });
  });

  // The last one: it changes the server.
  it('says so when it ends a consumer whose message was not acknowledged in time', async () => {
    await server.control('eval', 'application:set_env(rabbit, consumer_timeout, 1000).');
    const error = jest.spyOn(Logger.prototype, 'error');
    const { queue } = await openQueues();
    const gate = Gate.closed();
    const controller = orders(() => gate.pass());
    const { app, events } = await consumers.start(queue, controller, { store: memoryStore() });
    await emitOrder(queue, 1);
    await until(() => events.some(({ type }) => type === 'consumer_stopped'), 40_000);
    const lines = error.mock.calls.map(([line]) => String(line));
    error.mockRestore();
    expect(events.filter(({ type }) => type === 'consumer_stopped')).toEqual([
      {
        type: 'consumer_stopped',
        transport: 'message',
        queue: queue.name,
        reason: (await countsFaultsAlone()) ? 'cancelled' : 'channel_closed',
      },
    ]);
    expect(lines.filter((line) => line.includes(queue.name))).toEqual([
      expect.stringMatching(/\[rabbitmq_consumer_stopped\]$/),
    ]);
    const { warnings } = await app.get(IdempotencyHealth).check();
    expect(warnings).toEqual(['rabbitmq_consumer_stopped']);
    gate.open();
  });
});
