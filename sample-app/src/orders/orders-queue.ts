import { type RmqOptions, Transport } from '@nestjs/microservices';

export const ORDER_PLACED = 'order.placed';

/** How often an order comes again that fails, or whose consumer dies, before the broker puts it aside. */
export const DELIVERY_LIMIT = 5;

/** How many orders a consumer works on at a time. */
const PREFETCH_COUNT = 20;

export interface OrdersQueue {
  readonly url: string;
  readonly queue: string;
}

/** Where orders go that cannot be handled, for somebody to look at. */
export function deadLetterQueue(queue: string): string {
  return `${queue}.dead`;
}

/** The queue as its consumers and its publishers have to know it. */
export function ordersTransport({ url, queue }: OrdersQueue): RmqOptions {
  return {
    transport: Transport.RMQ,
    options: {
      urls: [url],
      queue,
      // What was delivered is acknowledged by @Idempotent(), and not before its outcome is stored.
      noAck: false,
      prefetchCount: PREFETCH_COUNT,
      queueOptions: {
        durable: true,
        arguments: {
          // Only these count their deliveries.
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
