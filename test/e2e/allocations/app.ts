import 'reflect-metadata';
import { createHook } from 'node:async_hooks';
import type { Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Body,
  Controller,
  Module,
  Post,
  UseInterceptors,
  type CallHandler,
  type NestInterceptor,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { serve } from '../../support/processes/child.js';
import { SERVICE } from '../../support/stores/named-for.js';
import type { Allocations } from './allocations.js';
import type { CountedSetup } from './setup.js';

const { platform, store, redisUrl } = JSON.parse(process.env.COUNTED_SETUP ?? '') as CountedSetup;

class EmptyInterceptor implements NestInterceptor {
  intercept(_context: unknown, next: CallHandler) {
    return next.handle();
  }
}

@Controller()
class PaymentsController {
  @Post('protected')
  @Idempotent({ caller: { anonymous: 'shared' } })
  protected(@Body() { amount }: { amount: number }) {
    return { amount, status: 'authorised' };
  }

  @Post('empty')
  @UseInterceptors(new EmptyInterceptor())
  empty(@Body() { amount }: { amount: number }) {
    return { amount, status: 'authorised' };
  }
}

@Module({
  imports: [
    IdempotencyModule.forRoot({
      service: SERVICE,
      store:
        store === 'redis'
          ? redisStore({ url: redisUrl })
          : memoryStore({ allowInMemoryStorage: true }),
      storeErrors: { commandTimeout: 10_000 },
    }),
  ],
  controllers: [PaymentsController],
})
class AppModule {}

const adapter = platform === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app = await NestFactory.create(AppModule, adapter, { logger: ['error'] });
await app.listen(0, '127.0.0.1');
const server = app.getHttpServer() as Server;

const so = { promises: 0, timers: 0 };
createHook({
  init: (_id, type) => {
    if (type === 'PROMISE') so.promises += 1;
    else if (type === 'Timeout') so.timers += 1;
  },
}).enable();

// Switches off Node's own timers, which depend on the time: for idle connections and for the Date header.
server.keepAliveTimeout = 0;
let arrivals: Allocations[] = [];
server.prependListener('request', (_request: unknown, response: ServerResponse) => {
  response.sendDate = false;
  arrivals.push({ ...so });
});

serve({
  port: () => (server.address() as AddressInfo).port,
  /** The counts at the arrival of each request since the last call. */
  takeArrivals: () => {
    const taken = arrivals;
    arrivals = [];
    return taken;
  },
});
