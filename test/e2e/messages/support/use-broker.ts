import { afterAll, afterEach, beforeAll } from '@jest/globals';
import { startRabbitMq, type RabbitMqServer } from '../../../support/rabbitmq-server.js';
import { Consumers } from './consumers.js';
import { TestQueue } from './test-queue.js';

/** A RabbitMQ for the tests of one file. What a test opens on it is closed after that test, consumers first. */
export interface UsedBroker {
  readonly consumers: Consumers;
  readonly openQueue: () => Promise<TestQueue>;
  /**
   * @param limit - how often a message of `queue` comes back before it is put aside into `aside`.
   * @defaultValue 5
   */
  readonly openLimitedQueue: (limit?: number) => Promise<{ queue: TestQueue; aside: TestQueue }>;
}

export function useBroker(): UsedBroker {
  const consumers = new Consumers();
  let server: RabbitMqServer;
  beforeAll(async () => {
    server = await startRabbitMq();
  }, 60_000);
  afterEach(() => consumers.close());
  afterAll(() => server.stop());
  const openQueue = async () => consumers.with(await TestQueue.open(server));
  return {
    consumers,
    openQueue,
    openLimitedQueue: async (limit = 5) => {
      const aside = await openQueue();
      return { queue: consumers.with(await TestQueue.limited(server, aside, limit)), aside };
    },
  };
}
