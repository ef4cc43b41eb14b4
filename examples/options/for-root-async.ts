import { ConfigService } from '@nestjs/config';
import { IdempotencyModule, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

export const idempotency = () =>
  // #region module
  IdempotencyModule.forRootAsync({
    inject: [ConfigService],
    useFactory: (config: ConfigService) => ({
      ...config.getOrThrow<Partial<IdempotencyModuleOptions>>('idempotency'),
      service: 'shop',
      store: redisStore({ url: config.getOrThrow<string>('REDIS_URL') }),
    }),
  });
// #endregion
