import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

export const idempotency = () =>
  // #region module
  IdempotencyModule.forRoot({
    store: redisStore({ url: process.env.REDIS_URL }),
    lease: { durationMs: 30_000 },
    duplicates: 'wait',
  });
// #endregion
