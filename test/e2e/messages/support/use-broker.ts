import { afterEach } from '@jest/globals';
import { useRabbitMq } from '../../../support/rabbitmq/use-rabbitmq.js';
import { BrokerRelay } from '../../../../lab/faults/messages/wire/broker-relay.js';
import { WireLog } from '../../../../lab/faults/messages/wire/wire-log.js';
import { Consumers } from './consumers.js';
import { TestQueue } from './test-queue.js';

/** The shared RabbitMQ. What a test opens on it is closed after the test, consumers first. */
export interface UsedBroker {
  readonly consumers: Consumers;
  readonly openQueue: () => Promise<TestQueue>;
  /** A connection to the broker for one consumer. It can be cut, and is opened again after a second. */
  readonly openRelay: () => Promise<UsedRelay>;
  /**
   * @param limit - how often a message of `queue` is redelivered before it is dead-lettered into `aside`.
   * @defaultValue 5
   */
  readonly openLimitedQueue: (
    limit?: number,
  ) => Promise<{ queue: TestQueue; deadLettered: TestQueue }>;
}

export interface UsedRelay {
  /** The frames that pass through it. */
  readonly log: WireLog;
  readonly cut: () => void;
  /** The options of a consumer that connects through it. */
  readonly connection: {
    readonly urls: string[];
    readonly socketOptions: { readonly reconnectTimeInSeconds: number };
  };
}

export function useBroker(): UsedBroker {
  const consumers = new Consumers();
  const server = useRabbitMq();
  let relays: BrokerRelay[] = [];
  afterEach(async () => {
    await consumers.close();
    await Promise.all(relays.map((relay) => relay.stop()));
    relays = [];
  });
  const openQueue = async () => consumers.with(await TestQueue.open(server));
  return {
    consumers,
    openQueue,
    openRelay: async () => {
      const log = new WireLog();
      const relay = await BrokerRelay.start(server.port, log, () => 'the consumer');
      relays.push(relay);
      const url = `amqp://guest:guest@127.0.0.1:${relay.port}`;
      return {
        log,
        cut: () => void relay.cut(),
        connection: { urls: [url], socketOptions: { reconnectTimeInSeconds: 1 } },
      };
    },
    openLimitedQueue: async (limit = 5) => {
      const deadLettered = await openQueue();
      return {
        queue: consumers.with(await TestQueue.limited(server, deadLettered, limit)),
        deadLettered,
      };
    },
  };
}
