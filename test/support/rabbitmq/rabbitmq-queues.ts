import { connect } from 'amqplib';
import type { RabbitMqServer } from './rabbitmq-server.js';
import { queueCounts } from './queue-counts.js';

export interface QueueLength {
  /** Messages that are ready for a consumer. */
  readonly ready: number;
  readonly consumers: number;
}

export interface QueueDepth extends QueueLength {
  /** Unacknowledged messages of consumers. */
  readonly unacked: number;
}

/** Asks the broker as a client: cheap, and without unacknowledged messages. */
export async function queueLength(url: string, queue: string): Promise<QueueLength> {
  const connection = await connect(url);
  try {
    const channel = await connection.createChannel();
    // The broker closes the channel on which a missing queue was declared passively, and reports it twice.
    channel.on('error', () => undefined);
    const { messageCount, consumerCount } = await channel.checkQueue(queue);
    return { ready: messageCount, consumers: consumerCount };
  } finally {
    await connection.close();
  }
}

/**
 * Asks the broker itself. The counts of a quorum queue may be a fifth of a second old.
 *
 * @throws Error if there is no such queue.
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
 * Ensures that a SIGKILL does not lose the declared queues. By itself the broker takes up to two seconds to
 * write a declaration to disk, and without it the confirmed messages of that queue are lost, too.
 */
export async function saveQueues(server: RabbitMqServer): Promise<void> {
  await server.control('eval', 'mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].');
}
