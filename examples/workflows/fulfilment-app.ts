import { Module, type Provider } from '@nestjs/common';
import type { Redis } from 'ioredis';
import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { Bank, type Charge, type Order } from './bank.js';
import { OrderFulfilment } from './order-fulfilment.workflow.js';
import { PaymentsService } from './payments.service.js';

/** Its books are a list in Redis, outside of all processes. */
class ListedBank extends Bank {
  constructor(private readonly redis: Redis) {
    super();
  }

  override async charge({ id }: Order): Promise<Charge> {
    return { number: await this.redis.rpush(`bank:${id}`, 'charge') };
  }

  override async refund({ number }: Charge): Promise<void> {
    await this.redis.rpush('refunds', number);
  }
}

export const booksOf = (redis: Redis, { id }: Order) => redis.lrange(`bank:${id}`, 0, -1);

@Module({})
class FulfilmentModule {}

/** The application, in the test and in its process. */
export function fulfilmentApp(url: string, redis: Redis) {
  const bank: Provider = { provide: Bank, useValue: new ListedBank(redis) };
  return {
    module: FulfilmentModule,
    imports: [
      IdempotencyModule.forRoot({
        service: 'shop',
        store: redisStore({ url }),
        lease: { duration: '1s' },
        // A busy machine must not look like a store that is down.
        storeErrors: { commandTimeout: '5s', saveTimeout: '5s' },
      }),
    ],
    providers: [OrderFulfilment, PaymentsService, bank],
  };
}
