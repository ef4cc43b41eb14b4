import { Body, Controller, Inject, Module, type OnApplicationShutdown, Post } from '@nestjs/common';
import knex, { type Knex } from 'knex';
import { IdempotencyModule, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import { knexUnitOfWork } from 'nestjs-idempotency/knex';
import { postgresStore } from 'nestjs-idempotency/postgres';
import type { RefundDto } from './refund.js';

const KNEX = Symbol('KNEX');

const database = {
  provide: KNEX,
  useFactory: () => knex({ client: 'pg', connection: process.env.DATABASE_URL! }),
};

@Module({ providers: [database], exports: [KNEX] })
class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(KNEX) private readonly db: Knex) {}

  onApplicationShutdown() {
    return this.db.destroy();
  }
}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule],
  inject: [KNEX],
  useFactory: (db: Knex) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: knexUnitOfWork(db),
  }),
});
// #endregion

@Controller('refunds')
export class RefundsController {
  // #region handler
  @Post()
  @Idempotent({ transaction: true })
  async refund(@Body() values: RefundDto, @IdempotencyTransaction() transaction: Knex.Transaction) {
    const [refund] = await transaction<RefundDto>('refunds').insert(values).returning('*');
    return refund;
  }
  // #endregion
}
