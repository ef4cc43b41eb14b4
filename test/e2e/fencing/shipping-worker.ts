/**
 * A process of the guide's controller, which makes the label of one order. Its carrier waits for a line on the standard
 * input.
 */
import 'reflect-metadata';
import { once } from 'node:events';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyEvents, IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { Pool } from 'pg';
import { Carrier } from '../../../examples/fencing/carrier.js';
import { ShipmentsController } from '../../../examples/fencing/shipments.controller.js';
import { SERVICE } from '../../support/stores/named-for.js';

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

const database = new Pool({ connectionString: postgresUrl });

/** Reports how many rows each statement changes, and leaves the clause out for the counter-check. */
const reportingDatabase = {
  async query(text: string, values: unknown[]) {
    const sent = isFenced ? text : text.replace(' AND fence < $1', '');
    const result = await database.query(sent, values);
    report({ rowsWritten: result.rowCount });
    return result;
  },
};

class WaitingCarrier extends Carrier {
  override async print(): Promise<string> {
    await once(process.stdin, 'data');
    return label;
  }
}

@Module({
  imports: [
    IdempotencyModule.forRoot({
      service: SERVICE,
      store: redisStore({ url: redisUrl }),
      lease: { duration: leaseMs },
      storeErrors: { commandTimeout: 5_000, saveTimeout: 10_000 },
      duplicates: { mode: 'wait', timeout: 20_000 },
    }),
  ],
  controllers: [ShipmentsController],
  providers: [
    { provide: Pool, useValue: reportingDatabase },
    { provide: Carrier, useClass: WaitingCarrier },
  ],
})
class ShippingModule {}

const app = await NestFactory.create(ShippingModule, { logger: false });
app.use((request: { user?: object }, _response: unknown, next: () => void) => {
  request.user = { id: 'warehouse' };
  next();
});
app.get(IdempotencyEvents).subscribe((event) => {
  if (event.type === 'acquired' || event.type === 'takeover') {
    report({ began: event.type, fencingToken: event.fencingToken });
  }
});
await app.listen(0, '127.0.0.1');

const response = await fetch(`${await app.getUrl()}/shipments/${order}/label`, { method: 'POST' });
report({ responded: await response.json() });

await app.close();
await database.end();
process.stdin.destroy();

function report(what: object): void {
  console.log(JSON.stringify(what));
}
