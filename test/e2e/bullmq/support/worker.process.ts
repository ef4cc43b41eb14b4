/** A worker that processes orders, and never finishes those held by it. */
import 'reflect-metadata';
import { BullModule, Processor, WorkerHost } from '@nestjs/bullmq';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Job } from 'bullmq';
import { IdempotencyModule, Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { delayJob } from 'nestjs-idempotency/bullmq';
import { redisStore } from 'nestjs-idempotency/redis';
import { SERVICE } from '../../../support/stores/named-for.js';
import {
  LOCK_MS,
  type HeldOrder,
  type WorkerMessage,
  type WorkerSettings,
} from './worker-settings.js';

const { name, redisPort, queue, leaseMs } = JSON.parse(
  process.env.TEST_SETTINGS ?? '',
) as WorkerSettings;

@Processor(queue, {
  concurrency: 20,
  lockDuration: LOCK_MS,
  stalledInterval: 300,
})
class OrdersProcessor extends WorkerHost {
  @Idempotent({
    operation: 'orders.place',
    key: ({ data }: Job<HeldOrder>) => data.id,
    onRejected: delayJob,
  })
  async process({ data: { id, heldBy } }: Job<HeldOrder>): Promise<unknown> {
    const { attempt, isTakeover } = requireIdempotencyContext();
    report({ said: 'begun', id, attempt, isTakeover });
    if (heldBy === name) await new Promise(() => undefined);
    return { by: name, attempt };
  }
}

@Module({
  imports: [
    BullModule.forRoot({ connection: { host: '127.0.0.1', port: redisPort } }),
    BullModule.registerQueue({ name: queue }),
    IdempotencyModule.forRoot({
      service: SERVICE,
      store: redisStore({ url: `redis://127.0.0.1:${redisPort}` }),
      lease: { duration: leaseMs },
      duplicates: { retryAfter: 250 },
      // Long enough that a busy machine is not mistaken for an unavailable store.
      storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
    }),
  ],
  providers: [OrdersProcessor],
})
class WorkerModule {}

await NestFactory.createApplicationContext(WorkerModule, { logger: false });
report({ said: 'ready' });

function report(message: WorkerMessage): void {
  console.log(JSON.stringify(message));
}
