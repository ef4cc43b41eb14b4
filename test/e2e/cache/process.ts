/** A process of a payments API with a local cache; its handler has effects in the ledger alone. */
import 'reflect-metadata';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { Controller, Headers, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import type { ProcessSettings } from './settings.js';

const { redisUrl, ledger } = JSON.parse(process.env.CACHE_TEST ?? '') as ProcessSettings;

@Controller()
@Idempotent({ anonymous: 'shared' })
class PaymentsController {
  @Post('payments')
  pay(@Headers('idempotency-key') key: string) {
    appendFileSync(ledger, `${key}\n`);
    return { paid: key, by: process.pid };
  }

  /** Stays until it is told to go on. */
  @Post('held')
  async held(@Headers('idempotency-key') key: string) {
    console.log('held');
    await once(process.stdin, 'data');
    return this.pay(key);
  }
}

@Module({
  imports: [
    IdempotencyModule.forRoot({
      store: redisStore({ url: redisUrl }),
      cache: true,
      // A machine that is busy with other tests is not to be mistaken for a Redis that is down.
      commandTimeoutMs: 10_000,
    }),
  ],
  controllers: [PaymentsController],
})
class PaymentsModule {}

const app = await NestFactory.create(PaymentsModule, new FastifyAdapter(), { logger: false });
await app.listen(0, '127.0.0.1');
console.log(await app.getUrl());
