import { connect } from 'amqplib';
import type { RabbitMqServer } from './rabbitmq-server.js';
import { queueCounts } from './rabbitmq/queue-counts.js';

export interface QueueLength {
  /** Messages that wait for a consumer. */
  readonly ready: number;
  readonly consumers: number;
}

export interface QueueDepth extends QueueLength {
  /** Messages that consumers have, and have not acknowledged. */
  readonly unacked: number;
}

/** Asks the broker as a client does: costs next to nothing, and does not see what consumers have. */
export async function queueLength(url: string, queue: string): Promise<QueueLength> {
  const connection = await connect(url);
  try {
    const channel = await connection.createChannel();
    // The broker closes the channel of whom asks for a queue that is not there, and says so twice.
    channel.on('error', () => undefined);
    const { messageCount, consumerCount } = await channel.checkQueue(queue);
    return { ready: messageCount, consumers: consumerCount };
  } finally {
    await connection.close();
  }
}

/**
 * Asks the broker itself. What a quorum queue says of itself may be a fifth of a second old.
 *
 * @throws Error where there is no such queue.
 */
export async function queueDepth(
  broker: { readonly dir: string },
  queue: string,
): Promise<QueueDepth> {
  const counts = await queueCounts(broker.dir, queue);
  if (counts === undefined) throw new Error(`there is no queue ${queue}`);
  const [ready, unacked, consumers] = counts;
  return { ready, unacked, consumers };
}

/**
 * Makes sure that a SIGKILL does not lose the queues that there are. By itself the broker takes up to two seconds to
 * write to the disk that a queue was declared, and without it the confirmed messages of that queue are lost, too.
 */
export async function saveQueues(server: RabbitMqServer): Promise<void> {
  await server.control('eval', 'mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].');
}
