import { Module } from '@nestjs/common';
import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { BillingModule } from './billing.module.js';

/** The part that tests share. */
export const idempotencyOptions = {
  caller: { anonymous: 'shared' },
  outcome: { retention: '1h' },
} as const;

export const idempotency = IdempotencyModule.forRootAsync({
  useFactory: () => ({
    service: 'shop',
    ...idempotencyOptions,
    store: redisStore({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' }),
  }),
});

@Module({ imports: [idempotency, BillingModule] })
export class AppModule {}
