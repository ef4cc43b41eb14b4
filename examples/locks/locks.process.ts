/** An application with both jobs. For each line of its input, it calls one of them, as its timer does. */
import 'reflect-metadata';
import { createInterface } from 'node:readline';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { Redis } from 'ioredis';
import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { Jobs } from './jobs.js';
import { Locks } from './locks.js';
import { Shop } from './shop.js';

const { url, job } = JSON.parse(process.env.TEST_SETTINGS ?? '') as {
  readonly url: string;
  readonly job: 'countStock' | 'sendInvoices';
};
const redis = new Redis(url);

/** Lists its effects outside of all processes, and then waits until the gate is open. */
class ListedShop extends Shop {
  countStock = () => this.act('countStock');
  sendInvoices = () => this.act('sendInvoices');

  private async act(name: string): Promise<void> {
    await redis.rpush(`effects:${name}`, process.pid);
    while ((await redis.exists('gate')) === 0) await new Promise(setImmediate);
  }
}

@Module({
  imports: [
    ScheduleModule.forRoot(),
    IdempotencyModule.forRoot({
      service: 'shop',
      store: redisStore({ url }),
      lease: { duration: '1s' },
      // A busy machine must not look like a store that is down.
      storeErrors: { commandTimeout: '5s', saveTimeout: '5s' },
    }),
  ],
  providers: [
    Jobs,
    { provide: Locks, useValue: new Locks(redis) },
    { provide: Shop, useClass: ListedShop },
  ],
})
class JobsModule {}

const app = await NestFactory.createApplicationContext(JobsModule, { logger: false });
const jobs = app.get(Jobs);
createInterface(process.stdin).on('line', () => {
  void jobs[job]().then(() => console.log(JSON.stringify({ ticked: job })));
});
console.log(JSON.stringify({ ready: job }));
