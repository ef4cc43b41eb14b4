/**
 * A process that makes a shipping label once per order: it reads the order, makes the label, and writes it to the
 * database. Between reading and writing it waits for a line on its standard input.
 */
import 'reflect-metadata';
import { once } from 'node:events';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule, IdempotencyService, type IdempotencyContext } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { Client } from 'pg';

/** The settings of the worker. */
export interface WorkerSettings {
  readonly redisUrl: string;
  readonly postgresUrl: string;
  readonly order: string;
  /** The label that the worker writes. */
  readonly label: string;
  /** Whether its UPDATE compares the fencing token. */
  readonly isFenced: boolean;
  readonly leaseMs: number;
}

const { redisUrl, postgresUrl, order, label, isFenced, leaseMs } = JSON.parse(
  process.env.TEST_SETTINGS ?? '',
) as WorkerSettings;

const FENCED = 'UPDATE shipments SET label = $2, fence = $3 WHERE order_id = $1 AND fence < $3';
const UNFENCED = 'UPDATE shipments SET label = $2, fence = $3 WHERE order_id = $1';

@Module({
  imports: [
    IdempotencyModule.forRoot({
      store: redisStore({ url: redisUrl }),
      lease: { durationMs: leaseMs },
      storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 10_000 },
      duplicates: { mode: 'wait', timeoutMs: 20_000 },
    }),
  ],
})
class ShippingModule {}

const app = await NestFactory.createApplicationContext(ShippingModule, { logger: false });
const database = new Client(postgresUrl);
await database.connect();

const shipped = await app
  .get(IdempotencyService)
  .run({ operation: 'ship', key: order, scope: 'warehouse' }, ship);
report({ shipped });

await app.close();
await database.end();
process.stdin.destroy();

async function ship({ attempt, isTakeover, fencingToken }: IdempotencyContext): Promise<string> {
  const { rows } = await database.query('SELECT label FROM shipments WHERE order_id = $1', [order]);
  report({ read: rows, attempt, isTakeover, fencingToken });
  await once(process.stdin, 'data');
  const write = isFenced ? FENCED : UNFENCED;
  const { rowCount } = await database.query(write, [order, label, fencingToken]);
  report({ rowsWritten: rowCount });
  return label;
}

function report(what: object): void {
  console.log(JSON.stringify(what));
}
