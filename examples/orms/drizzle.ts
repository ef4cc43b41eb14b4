import { Body, Controller, Module, type OnApplicationShutdown, Post } from '@nestjs/common';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { integer, pgTable, serial, text } from 'drizzle-orm/pg-core';
import { IdempotencyModule, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import { type DrizzleTransaction, drizzleUnitOfWork } from 'nestjs-idempotency/drizzle';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { Pool } from 'pg';
import type { RefundDto } from './refund.js';

const refunds = pgTable('refunds', {
  id: serial().primaryKey(),
  payment: text().notNull(),
  amount: integer().notNull(),
});
const schema = { refunds };

const pool = {
  provide: Pool,
  useFactory: () => new Pool({ connectionString: process.env.DATABASE_URL }),
};

@Module({ providers: [pool], exports: [Pool] })
class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly connections: Pool) {
    connections.on('error', () => undefined);
  }

  onApplicationShutdown() {
    return this.connections.end();
  }
}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule],
  inject: [Pool],
  useFactory: (connections: Pool) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: drizzleUnitOfWork(connections, (client) => drizzle(client, { schema })),
  }),
});
// #endregion

type Transaction = DrizzleTransaction<NodePgDatabase<typeof schema>>;

@Controller('refunds')
export class RefundsController {
  // #region handler
  @Post()
  @Idempotent({ transaction: true })
  async refund(@Body() values: RefundDto, @IdempotencyTransaction() transaction: Transaction) {
    const [refund] = await transaction.insert(refunds).values(values).returning();
    return refund;
  }
  // #endregion
}
