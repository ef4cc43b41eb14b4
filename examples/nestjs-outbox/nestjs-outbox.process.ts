/** Places an order, and stops before its record is written, or wherever the database makes it wait. */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import type { AdapterName } from '../../test/integration/transactions/adapters/index.js';
import { AnyOrders, MODULE_OPTIONS, openAnyOrders } from './any-orders.js';

const { url, name, id, stops } = JSON.parse(process.env.TEST_SETTINGS ?? '') as {
  readonly url: string;
  readonly name: AdapterName;
  readonly id: string;
  readonly stops: boolean;
};

const { unitOfWork, providers } = await openAnyOrders(name, url, async () => {
  if (!stops) return;
  console.log(JSON.stringify({ stopped: id }));
  await new Promise(() => undefined);
});

@Module({})
class OrdersModule {}

const app = await NestFactory.createApplicationContext(
  {
    module: OrdersModule,
    imports: [
      IdempotencyModule.forRoot({ store: postgresStore({ url }), unitOfWork, ...MODULE_OPTIONS }),
    ],
    providers,
  },
  { logger: false },
);
await app.get(AnyOrders).place(id);
