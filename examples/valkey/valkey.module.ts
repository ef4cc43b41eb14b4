import { Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'iovalkey';
import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

const VALKEY = Symbol('VALKEY');

const valkey = {
  provide: VALKEY,
  useFactory: () => {
    const client = new Redis(process.env.VALKEY_URL!, { enableAutoPipelining: true });
    client.on('error', () => undefined); // the store says why it cannot reach the server
    return client;
  },
};

@Module({ providers: [valkey], exports: [VALKEY] })
class ValkeyModule implements OnApplicationShutdown {
  constructor(@Inject(VALKEY) private readonly client: Redis) {}

  /** Not in onModuleDestroy: running operations still have to store their outcomes then. */
  onApplicationShutdown() {
    this.client.disconnect();
  }
}

export const idempotency = IdempotencyModule.forRootAsync({
  imports: [ValkeyModule],
  inject: [VALKEY],
  useFactory: (client: Redis) => ({ service: 'shop', store: redisStore({ client }) }),
});
