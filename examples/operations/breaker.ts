import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

export const idempotency = IdempotencyModule.forRoot({
  service: 'shop',
  store: redisStore({ url: 'redis://localhost:6379' }),
  breaker: true, // or { errorThresholdPercentage, volumeThreshold, windowMs, probeIntervalMs }
});
