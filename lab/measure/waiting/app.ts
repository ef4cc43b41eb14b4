import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Idempotent, IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { SERVICE } from '../../../test/support/stores/named-for.js';

const HANDLER_MS = 200;

let executions = 0;

async function work(): Promise<{ execution: number }> {
  executions += 1;
  const execution = executions;
  await delay(HANDLER_MS);
  return { execution };
}

@Controller()
class MeasuredController {
  @Post('bare')
  bare() {
    return work();
  }

  @Post('waiting')
  @Idempotent({ duplicates: 'wait' })
  waiting() {
    return work();
  }
}

@Module({
  imports: [
    IdempotencyModule.forRoot({
      service: SERVICE,
      store: redisStore({ url: process.env.REDIS_URL ?? '' }),
      caller: { anonymous: 'shared' },
      storeErrors: { commandTimeout: 10_000 },
    }),
  ],
  controllers: [MeasuredController],
})
class AppModule {}

const adapter = process.env.PLATFORM === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app = await NestFactory.create(AppModule, adapter, { logger: ['error', 'warn'] });
await app.listen(0, '127.0.0.1');
process.once('disconnect', () => process.exit());
process.send?.(await app.getUrl());
