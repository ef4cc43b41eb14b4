import { Transport, type RmqOptions } from '@nestjs/microservices';

/** The queue of the billing service, for `NestFactory.createMicroservice()` or `app.connectMicroservice()`. */
export function billingQueue(url: string, queue = 'billing'): RmqOptions {
  return {
    transport: Transport.RMQ,
    options: {
      urls: [url],
      queue,
      // The library acknowledges. With Nest's default, true, the application does not start.
      noAck: false,
      // Held messages fill this window: set a few dozen.
      prefetchCount: 50,
      queueOptions: {
        durable: true,
        arguments: {
          'x-queue-type': 'quorum',
          // How often a message is redelivered before it is dead-lettered.
          'x-delivery-limit': 5,
          'x-dead-letter-exchange': '',
          'x-dead-letter-routing-key': `${queue}.dead`,
        },
      },
    },
  };
}
