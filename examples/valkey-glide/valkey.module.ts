import { Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { GlideClient } from '@valkey/valkey-glide';
import { IdempotencyModule } from 'nestjs-idempotency';
import { glideStore } from 'nestjs-idempotency/valkey-glide';

const VALKEY = Symbol('VALKEY');

const valkey = {
  provide: VALKEY,
  useFactory: () =>
    GlideClient.createClient({
      addresses: [{ host: '127.0.0.1', port: Number(process.env.VALKEY_PORT) }],
      requestTimeout: 1_000,
    }),
};

@Module({ providers: [valkey], exports: [VALKEY] })
class ValkeyModule implements OnApplicationShutdown {
  constructor(@Inject(VALKEY) private readonly client: GlideClient) {}

  /** Not in onModuleDestroy: running operations still have to store their outcomes then. */
  onApplicationShutdown() {
    this.client.close();
  }
}

export const idempotency = IdempotencyModule.forRootAsync({
  imports: [ValkeyModule],
  inject: [VALKEY],
  useFactory: (client: GlideClient) => ({ service: 'shop', store: glideStore({ client }) }),
});
