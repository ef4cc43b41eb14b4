import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

export const idempotency = () =>
  // #region module
  IdempotencyModule.forRoot({
    service: 'shop',
    store: redisStore({ url: process.env.REDIS_URL }),
    lease: { duration: '30s' },
    duplicates: 'wait',
  });
// #endregion

export const outermost = () =>
  // #region outermost
  IdempotencyModule.forRoot({
    service: 'shop',
    store: redisStore({ url: process.env.REDIS_URL }),
    isOutermost: true,
  });
// #endregion
