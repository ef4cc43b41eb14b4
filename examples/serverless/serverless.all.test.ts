import type { AddressInfo } from 'node:net';
import { Controller, Module, Post, type DynamicModule } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { useRedis } from '../../test/support/redis/use-redis.js';
import { TcpRelay } from '../../test/support/servers/tcp-relay.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { BearerGuard, post } from '../support/http-client.js';
import { idempotency } from './idempotency.js';

const redis = useRedis();
/** Stands for the network, which forgets the connections of a frozen process. */
const network = useServer(() => TcpRelay.start(redis.port));
beforeAll(() => void (process.env.REDIS_URL = network.through(redis.url)));
afterAll(() => {
  delete process.env.REDIS_URL;
});

let charges = 0;

@Controller('payments')
class PaymentsController {
  @Post()
  @Idempotent()
  charge() {
    return { charge: (charges += 1) };
  }
}

@Module({})
class AppModule {}

async function start(imported: DynamicModule) {
  const module = { module: AppModule, imports: [imported], controllers: [PaymentsController] };
  const app = await NestFactory.create(module, { logger: false, abortOnError: false });
  app.useGlobalGuards(new BearerGuard());
  await app.listen(0, '127.0.0.1');
  return app;
}

describe.each([
  ['the settings of this guide', idempotency, 201],
  [
    'the default of storeErrors.commandTimeout',
    () =>
      IdempotencyModule.forRoot({
        service: 'shop',
        store: redisStore({ url: process.env.REDIS_URL }),
      }),
    503,
  ],
])('A process that was frozen, with %s', (name, module, status) => {
  const app = useServer(() => start(module()));
  const pay = (key: string) => {
    const { port } = app.getHttpServer().address() as AddressInfo;
    return post(port, '/payments', { key: `${key} of ${name}`, as: { id: 'alice' } });
  };

  it(`responds with ${status} over a connection that the network has forgotten`, async () => {
    expect(await pay('before')).toMatchObject({ status: 201 });
    const before = charges;
    network.stallDetector();
    expect(await pay('after')).toMatchObject({ status });
    expect(charges - before).toBe(status === 201 ? 1 : 0);
  });
});
