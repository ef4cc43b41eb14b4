import { connect } from 'amqplib';
import type { RabbitMqServer } from './rabbitmq-server.js';

const MOST_LOOKS = 10;

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
 * Asks by rabbitmqctl, which takes a quarter of a second and more. What a quorum queue says of
 * itself may be a fifth of a second old.
 *
 * @throws Error where there is no such queue.
 */
export async function queueDepth(
  server: Pick<RabbitMqServer, 'control'>,
  queue: string,
): Promise<QueueDepth> {
  const row = (await listQueues(server)).find(({ name }) => name === queue);
  if (row === undefined) throw new Error(`there is no queue ${queue}`);
  return {
    ready: row.messages_ready,
    unacked: row.messages_unacknowledged,
    consumers: row.consumers,
  };
}

/** On a busy machine rabbitmqctl may end well and without all that it had to say: it is asked again. */
async function listQueues(server: Pick<RabbitMqServer, 'control'>): Promise<QueueRow[]> {
  const columns = ['name', 'messages_ready', 'messages_unacknowledged', 'consumers'];
  for (let times = 1; ; times += 1) {
    const output = await server.control('list_queues', '--quiet', '--formatter=json', ...columns);
    try {
      return JSON.parse(output) as QueueRow[];
    } catch (error) {
      if (times < MOST_LOOKS) continue;
      throw new Error(`rabbitmqctl lists no queues: ${JSON.stringify(output)}`, { cause: error });
    }
  }
}

/**
 * Makes sure that a SIGKILL does not lose the queues that there are. By itself the broker takes up to two seconds to
 * write to the disk that a queue was declared, and without it the confirmed messages of that queue are lost, too.
 */
export async function saveQueues(server: RabbitMqServer): Promise<void> {
  await server.control('eval', 'mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].');
}

interface QueueRow {
  readonly name: string;
  readonly messages_ready: number;
  readonly messages_unacknowledged: number;
  readonly consumers: number;
}
