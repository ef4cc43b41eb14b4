import { Body, Controller, Inject, Module, type OnApplicationShutdown, Post } from '@nestjs/common';
import { type Generated, Kysely, PostgresDialect, type Transaction } from 'kysely';
import { IdempotencyModule, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import { kyselyUnitOfWork } from 'nestjs-idempotency/kysely';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { Pool } from 'pg';
import type { RefundDto } from './refund.js';

interface Tables {
  refunds: { id: Generated<number>; payment: string; amount: number };
}

const DB = Symbol('DB');

const database = {
  provide: DB,
  useFactory: () => {
    const pool = new Pool({ connectionString: process.env.DATABASE_URL });
    pool.on('connect', (client) => client.on('error', () => undefined));
    pool.on('error', () => undefined);
    return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  },
};

@Module({ providers: [database], exports: [DB] })
class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(DB) private readonly db: Kysely<Tables>) {}

  onApplicationShutdown() {
    return this.db.destroy();
  }
}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule],
  inject: [DB],
  useFactory: (db: Kysely<Tables>) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: kyselyUnitOfWork(db),
  }),
});
// #endregion

@Controller('refunds')
export class RefundsController {
  // #region handler
  @Post()
  @Idempotent({ transaction: true })
  refund(@Body() refund: RefundDto, @IdempotencyTransaction() transaction: Transaction<Tables>) {
    const insert = transaction.insertInto('refunds').values(refund);
    return insert.returningAll().executeTakeFirstOrThrow();
  }
  // #endregion
}
