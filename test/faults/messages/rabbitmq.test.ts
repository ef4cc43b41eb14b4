import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { connect, type Channel, type ChannelModel, type Message } from 'amqplib';
import { until } from '../../support/waiting/until.js';
import { queueDepth } from '../../support/rabbitmq/rabbitmq-queues.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { expectEachHandledOnce } from '../../../lab/faults/messages/expect-each-handled-once.js';
import { BrokerRelay } from '../../../lab/faults/messages/wire/broker-relay.js';
import { WireLog } from '../../../lab/faults/messages/wire/wire-log.js';
import { FORGED_TAG, FORGED_TAG_REJECTION } from '../../../lab/faults/messages/worker/settings.js';
import { useServer } from '../../support/servers/use-server.js';
import { startMessageServers } from './start-servers.js';

const servers = useServer(() => startMessageServers());

// With mistakes: mutants.all.test.ts.
describe('consumers on RabbitMQ that are killed and lose their channels', () => {
  it('handle each message once, except for takeovers, lose none, and do not loop', async () => {
    const dose = isTestAll
      ? { messages: 300, kills: 4, closes: 3 }
      : { messages: 60, kills: 1, closes: 1 };
    await expectEachHandledOnce(servers, dose);
  }, 120_000);
});

describe('the wire log between broker and consumer', () => {
  const queue = `heard-${randomUUID()}`;
  let log: WireLog;
  let relay: BrokerRelay;
  let publisher: ChannelModel;
  let consumer: ChannelModel;
  let channel: Channel;
  let received: Message[];

  beforeEach(async () => {
    publisher = await connect(servers.broker.url);
    const publishing = await publisher.createConfirmChannel();
    await publishing.assertQueue(queue, { arguments: { 'x-queue-type': 'quorum' }, durable: true });
    for (const copy of ['1', '2', '3', '4', '5', '6', '7']) {
      publishing.sendToQueue(queue, Buffer.from('x'), {
        messageId: `message ${copy}`,
        correlationId: copy,
        contentType: 'text/plain',
        headers: { some: 'thing', other: 2 },
        priority: 1,
        expiration: 100_000,
      });
    }
    await publishing.waitForConfirms();
    log = new WireLog();
    relay = await BrokerRelay.start(servers.broker.port, log, () => 'the consumer');
    await consume();
  });
  afterEach(async () => {
    await publisher.createChannel().then((admin) => admin.deleteQueue(queue));
    await publisher.close();
    await relay.stop();
  });

  async function consume(): Promise<void> {
    consumer = await connect(`amqp://guest:guest@127.0.0.1:${relay.port}`);
    consumer.on('error', () => undefined);
    channel = await consumer.createChannel();
    channel.on('error', () => undefined);
    received = [];
    await channel.prefetch(7);
    await channel.consume(queue, (message) => received.push(message!));
    await until(() => received.length === 7);
  }

  const ends = () =>
    Object.fromEntries(log.deliveries.map(({ copy, end }) => [copy, end] as const).sort());

  it("has each consumer's acknowledgements, and the unacknowledged messages as the broker counts them", async () => {
    channel.ack(received[1]!, true);
    channel.nack(received[2]!, false, false);
    channel.reject(received[3]!, false);
    channel.nack(received[4]!, false, true);
    await until(() => log.delivered === 8);
    expect(ends()).toEqual({
      ...{ 1: 'acked', 2: 'acked', 3: 'discarded', 4: 'discarded', 5: 'requeued' },
    });
    expect(log.unacknowledged).toBe(3);
    await until(async () => (await queueDepth(servers.broker, queue)).unacked === 3);
    channel.ack(received[7]!);
    await until(() => log.unacknowledged === 2);
    expect(log.deliveries.at(-1)).toMatchObject({
      ...{ key: 'message 5', copy: '5', consumer: 'the consumer', isRedelivered: true },
    });
    await consumer.close();
  });

  const closings: [string, () => unknown, object][] = [
    [
      'by its consumer',
      () => channel.close(),
      { by: 'consumer', reason: expect.stringMatching(/^200 /) },
    ],
    [
      'by the broker',
      () => channel.ack({ fields: { deliveryTag: FORGED_TAG } } as Message),
      { by: 'broker', reason: FORGED_TAG_REJECTION },
    ],
    ['with its connection', () => relay.cut(), { by: 'none' }],
  ];

  it.each(closings)('has what a channel held when it was closed %s', async (_, end, how) => {
    channel.ack(received[0]!);
    channel.ack(received[1]!);
    await until(() => log.unacknowledged === 5);
    end();
    await until(() => log.closes.length === 1);
    expect(log.closes).toEqual([expect.objectContaining({ ...how, returned: 5 })]);
    expect(log.unacknowledged).toBe(0);
    await until(async () => (await queueDepth(servers.broker, queue)).ready === 5);
    await consumer.close().catch(() => undefined);
  });
});
