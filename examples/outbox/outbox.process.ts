/** Places an order and relays the outbox. Stops where its settings say. */
import 'reflect-metadata';
import { appendFileSync } from 'node:fs';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule } from 'nestjs-idempotency';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { Pool } from 'pg';
import { Orders } from './orders.js';
import { OutboxRelay } from './outbox-relay.js';
import { MODULE_OPTIONS, type ProcessSettings } from './process-settings.js';

const { url, order, stopsAt, broker } = JSON.parse(
  process.env.OUTBOX_TEST ?? '',
) as ProcessSettings;

const pool = new Pool({ connectionString: url });

@Module({
  imports: [
    IdempotencyModule.forRoot({
      store: postgresStore({ url }),
      unitOfWork: pgUnitOfWork(pool),
      ...MODULE_OPTIONS,
    }),
  ],
  providers: [Orders],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
if (order !== undefined) await app.get(Orders).place(order);
await new OutboxRelay(pool, async (message) => {
  if (stopsAt === 'before publishing') await stop();
  appendFileSync(broker, `${JSON.stringify(message)}\n`);
  if (stopsAt === 'after publishing') await stop();
}).relay();
await app.close();
await pool.end();

async function stop(): Promise<void> {
  console.log('stopped');
  await new Promise(() => undefined);
}
