import { Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { IdempotencyModule } from 'nestjs-idempotency';
import { nodeRedisStore, type NodeRedisClient } from 'nestjs-idempotency/node-redis';
import { createClient } from 'redis';

const REDIS = Symbol('REDIS');
type Client = ReturnType<typeof createClient>;

const redis = {
  provide: REDIS,
  useFactory: async () => {
    const client = createClient({ url: process.env.REDIS_URL!, disableOfflineQueue: true });
    client.on('error', () => undefined); // the store says why it cannot reach the server
    await client.connect();
    return client;
  },
};

@Module({ providers: [redis], exports: [REDIS] })
class RedisModule implements OnApplicationShutdown {
  constructor(@Inject(REDIS) private readonly client: Client) {}

  /** Not in onModuleDestroy: running operations still have to store their outcomes then. */
  onApplicationShutdown() {
    this.client.destroy();
  }
}

export const idempotency = IdempotencyModule.forRootAsync({
  imports: [RedisModule],
  inject: [REDIS],
  useFactory: (client: NodeRedisClient) => ({ service: 'shop', store: nodeRedisStore({ client }) }),
});
