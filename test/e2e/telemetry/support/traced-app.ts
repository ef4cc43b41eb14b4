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

@Module({
  imports: [
    IdempotencyModule.forRoot({
      store: memoryStore(),
      caller: { anonymous: 'shared' },
      telemetry: openTelemetry(),
    }),
  ],
  controllers: [Payments],
})
class AppModule {}

const adapter = process.env.PLATFORM === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app = await NestFactory.create(AppModule, adapter, { logger: ['error'] });
await app.listen(0, '127.0.0.1');
const server = app.getHttpServer() as Server;

serve({ port: () => (server.address() as AddressInfo).port });
