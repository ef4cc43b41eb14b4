/** The payments API in a process of its own. Prints its port. */
import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { PaymentProvider, PROVIDER_URL } from './payment-provider.js';
import { PaymentsController } from './payments.controller.js';

const { redisUrl, providerUrl, leaseMs } = JSON.parse(process.env.TEST_SETTINGS ?? '') as {
  readonly redisUrl: string;
  readonly providerUrl: string;
  readonly leaseMs: number;
};

@Module({
  imports: [
    IdempotencyModule.forRoot({
      service: 'shop',
      store: redisStore({ url: redisUrl }),
      caller: { anonymous: 'shared' },
      lease: { duration: leaseMs },
      // A busy machine must not look like a store that is down.
      storeErrors: { commandTimeout: '5s', saveTimeout: '5s' },
    }),
  ],
  controllers: [PaymentsController],
  providers: [PaymentProvider, { provide: PROVIDER_URL, useValue: providerUrl }],
})
class PaymentsModule {}

const app = await NestFactory.create<NestFastifyApplication>(PaymentsModule, new FastifyAdapter(), {
  logger: false,
});
app.enableShutdownHooks();
await app.listen(0, '127.0.0.1');
const { port } = app.getHttpServer().address() as AddressInfo;
console.log(JSON.stringify({ port }));
