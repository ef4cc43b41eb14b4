import { ServerKafka } from '@nestjs/microservices';
import type { EachMessagePayload, KafkaMessage } from 'kafkajs';

/**
 * Nest's own Kafka server without a broker: no package that the tests can install contains Kafka. Messages are passed
 * in as kafkajs passes them, in the shape of kafkajs' decoder. kafkajs commits the offset if the promise resolves, and
 * fetches the message again if it rejects.
 */
export class ServerWithoutBroker extends ServerKafka {
  readonly sent: unknown[] = [];

  override async listen(callback: (error?: unknown) => void): Promise<void> {
    callback();
  }

  override async close(): Promise<void> {
    // Nothing was opened.
  }

  override async sendMessage(message: object): Promise<[]> {
    this.sent.push(message);
    return [];
  }

  /** Settles like kafkajs' handler: commits the offset if it resolves, redelivers the message if it rejects. */
  deliver(
    topic: string,
    offset: number,
    message: Partial<KafkaMessage>,
    heartbeat: () => Promise<void> = () => Promise.resolve(),
  ): Promise<unknown> {
    return this.handleMessage({
      topic,
      partition: 0,
      message: {
        magicByte: 2,
        attributes: 0,
        timestamp: '1764000000000',
        offset: String(offset),
        headers: {},
        isControlRecord: false,
        ...message,
      },
      heartbeat,
      pause: () => () => undefined,
    } as unknown as EachMessagePayload);
  }
}
