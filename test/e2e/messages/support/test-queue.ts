import { randomUUID } from 'node:crypto';
import { Transport, type RmqOptions } from '@nestjs/microservices';
import { connect, type ChannelModel, type ConfirmChannel, type Options } from 'amqplib';
import { until } from '../../../support/waiting/until.js';
import {
  queueDepth,
  queueLength,
  type QueueDepth,
} from '../../../support/rabbitmq/rabbitmq-queues.js';
import type { UsedRabbitMq } from '../../../support/rabbitmq/use-rabbitmq.js';

/** The queue of one test, with methods to fill and to inspect it. */
export class TestQueue {
  private constructor(
    private readonly broker: UsedRabbitMq,
    readonly name: string,
    private readonly connection: ChannelModel,
    private readonly channel: ConfirmChannel,
    private readonly settings: Options.AssertQueue,
  ) {}

  /** @param settings - of the queue; by default it is classic and durable. */
  static async open(broker: UsedRabbitMq, settings: Options.AssertQueue = {}): Promise<TestQueue> {
    const connection = await connect(broker.url);
    const channel = await connection.createConfirmChannel();
    const name = `queue-${randomUUID()}`;
    const durable = { durable: true, ...settings };
    await channel.assertQueue(name, durable);
    return new TestQueue(broker, name, connection, channel, durable);
  }

  /** A quorum queue that dead-letters a message into `aside` after `limit` redeliveries. */
  static limited(broker: UsedRabbitMq, deadLettered: TestQueue, limit: number): Promise<TestQueue> {
    return TestQueue.open(broker, {
      arguments: {
        'x-queue-type': 'quorum',
        'x-delivery-limit': limit,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': deadLettered.name,
      },
    });
  }

  /** The options of Nest's transport that consumes from it. */
  transport(options: RmqOptions['options'] = {}): RmqOptions {
    return {
      transport: Transport.RMQ,
      options: {
        urls: [this.broker.url],
        queue: this.name,
        noAck: false,
        queueOptions: this.settings,
        ...options,
      },
    };
  }

  /** Publishes an event as Nest's client does, and waits for the broker's confirmation. */
  async emit(pattern: string, data: unknown, options: Options.Publish = {}): Promise<void> {
    const content = Buffer.from(JSON.stringify({ pattern, data }));
    this.channel.sendToQueue(this.name, content, { persistent: true, ...options });
    await this.channel.waitForConfirms();
  }

  /** Waits until it holds `count` messages that are ready. */
  holds(count: number): Promise<void> {
    return until(async () => (await queueLength(this.broker.url, this.name)).ready === count);
  }

  /** Waits until it has a consumer. */
  isConsumed(): Promise<void> {
    return until(async () => (await queueLength(this.broker.url, this.name)).consumers > 0);
  }

  depth(): Promise<QueueDepth> {
    return queueDepth(this.broker, this.name);
  }

  /** Waits until every message has been acknowledged. */
  isEmpty(): Promise<void> {
    return until(async () => {
      const { ready, unacked } = await this.depth();
      return ready === 0 && unacked === 0;
    });
  }

  async close(): Promise<void> {
    await this.connection.close();
  }
}
