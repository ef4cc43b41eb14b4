import 'reflect-metadata';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { serve } from '../../../support/processes/child.js';

@Controller()
class Payments {
  @Post('payments')
  @Idempotent({ operation: 'payments.create' })
  create() {
    return { created: true };
  }
}

@Module({})
class AppModule {}

/** Each application has a store of its own. */
const moduleOf = () => ({
  module: AppModule,
  imports: [
    IdempotencyModule.forRoot({
      store: memoryStore({ allowInMemoryStorage: true }),
      caller: { anonymous: 'shared' },
      telemetry: openTelemetry(),
    }),
  ],
  controllers: [Payments],
});

async function portOn(adapter: ExpressAdapter | FastifyAdapter): Promise<number> {
  const app = await NestFactory.create(moduleOf(), adapter, { logger: ['error'] });
  await app.listen(0, '127.0.0.1');
  return ((app.getHttpServer() as Server).address() as AddressInfo).port;
}

const ports = {
  express: await portOn(new ExpressAdapter()),
  fastify: await portOn(new FastifyAdapter()),
};

serve({ portOf: (platform: keyof typeof ports) => ports[platform] });
