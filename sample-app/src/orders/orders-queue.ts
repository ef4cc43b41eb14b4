import { type RmqOptions, Transport } from '@nestjs/microservices';

export const ORDER_PLACED = 'order.placed';

/** How often the broker redelivers an order that fails or whose consumer dies before it dead-letters the order. */
export const DELIVERY_LIMIT = 5;

/** How many orders a consumer processes concurrently. */
const PREFETCH_COUNT = 20;

export interface OrdersQueue {
  readonly url: string;
  readonly queue: string;
}

/** The queue of orders that cannot be handled, for an operator to inspect. */
export function deadLetterQueue(queue: string): string {
  return `${queue}.dead`;
}

/** The queue's settings, shared by its consumers and publishers. */
export function ordersTransport({ url, queue }: OrdersQueue): RmqOptions {
  return {
    transport: Transport.RMQ,
    options: {
      urls: [url],
      queue,
      // @Idempotent() acknowledges a message after its outcome is stored.
      noAck: false,
      prefetchCount: PREFETCH_COUNT,
      queueOptions: {
        durable: true,
        arguments: {
          // Only quorum queues count deliveries.
          'x-queue-type': 'quorum',
          'x-delivery-limit': DELIVERY_LIMIT,
          'x-dead-letter-exchange': '',
          'x-dead-letter-routing-key': deadLetterQueue(queue),
        },
      },
      socketOptions: { reconnectTimeInSeconds: 1 },
    },
  };
}
