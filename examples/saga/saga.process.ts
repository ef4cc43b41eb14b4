/** Runs a saga, and stops forever where its settings say. */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  ListedServices,
  MODULE_OPTIONS,
  type ServiceSettings,
  type StopsAt,
} from './listed-services.js';
import { OrderSaga } from './order.saga.js';
import type { Order } from './services.js';

const { redisUrl, order, stopsAt, services } = JSON.parse(process.env.TEST_SETTINGS ?? '') as {
  readonly redisUrl: string;
  readonly order: Order;
  readonly stopsAt: StopsAt;
  readonly services: ServiceSettings;
};

async function reached(place: StopsAt): Promise<void> {
  if (place !== stopsAt) return;
  console.log(JSON.stringify({ stopped: place }));
  await new Promise(() => undefined);
}

@Module({
  imports: [IdempotencyModule.forRoot({ store: redisStore({ url: redisUrl }), ...MODULE_OPTIONS })],
  providers: [OrderSaga, ...new ListedServices(new Redis(redisUrl), services, reached).providers],
})
class SagaModule {}

const app = await NestFactory.createApplicationContext(SagaModule, { logger: false });
await app.get(OrderSaga).run(order);
