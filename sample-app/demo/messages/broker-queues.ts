import { type ChannelModel, connect } from 'amqplib';
import { deadLetterQueue } from '../../src/orders/orders-queue.js';

/** The broker's own counts of the orders in its queues. */
export class BrokerQueues {
  private constructor(
    private readonly connection: ChannelModel,
    private readonly queue: string,
  ) {}

  static async open(url: string, queue: string): Promise<BrokerQueues> {
    const connection = await connect(url);
    // The broker may end before its client.
    connection.on('error', () => undefined);
    return new BrokerQueues(connection, queue);
  }

  /** How many orders wait for a consumer, without those delivered to one. */
  waiting(): Promise<number> {
    return this.#count(this.queue);
  }

  deadLettered(): Promise<number> {
    return this.#count(deadLetterQueue(this.queue));
  }

  /** Deletes both queues, if they exist. */
  async delete(): Promise<void> {
    const channel = await this.connection.createChannel();
    await channel.deleteQueue(this.queue);
    await channel.deleteQueue(deadLetterQueue(this.queue));
    await this.connection.close();
  }

  async #count(queue: string): Promise<number> {
    const channel = await this.connection.createChannel();
    const { messageCount } = await channel.checkQueue(queue);
    await channel.close();
    return messageCount;
  }
}
