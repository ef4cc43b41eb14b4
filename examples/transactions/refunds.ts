import { Body, Controller, Injectable, Module, Param, Post } from '@nestjs/common';
import {
  currentIdempotencyTransaction,
  IdempotencyContext,
  IdempotencyModule,
  IdempotencyTransaction,
  Idempotent,
} from 'nestjs-idempotency';
import { type PgTransaction, pgUnitOfWork } from 'nestjs-idempotency/pg';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { Pool } from 'pg';
import { Mails } from './mails.js';

export interface RefundDto {
  readonly amount: number;
}

interface Refund extends RefundDto {
  readonly id: number;
  readonly payment: string;
}

const pool = {
  provide: Pool,
  useFactory: () => {
    const opened = new Pool({ connectionString: process.env.DATABASE_URL, max: 20 });
    opened.on('error', () => undefined);
    return opened;
  },
};

/** Closes the pool once the operations have ended. */
@Module({ providers: [pool], exports: [Pool] })
class DatabaseModule {
  constructor(private readonly opened: Pool) {}

  onApplicationShutdown() {
    return this.opened.end();
  }
}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule], // which provides and exports Pool
  inject: [Pool],
  useFactory: (pool: Pool) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: pgUnitOfWork(pool),
  }),
});
// #endregion

// #region service
@Injectable()
export class Ledger {
  constructor(private readonly pool: Pool) {}

  async note(payment: string, amount: number): Promise<void> {
    const connection = currentIdempotencyTransaction<PgTransaction<Pool>>() ?? this.pool;
    await connection.query('INSERT INTO ledger (payment, amount) VALUES ($1, $2)', [
      payment,
      amount,
    ]);
  }
}
// #endregion

@Controller('payments')
export class RefundsController {
  constructor(
    private readonly ledger: Ledger,
    private readonly mails: Mails,
  ) {}

  // #region handler
  @Post(':id/refunds')
  @Idempotent({ transaction: true })
  async refund(
    @Param('id') payment: string,
    @Body() { amount }: RefundDto,
    @IdempotencyTransaction() transaction: PgTransaction<Pool>,
  ) {
    const { rows } = await transaction.query<Refund>(
      'INSERT INTO refunds (payment, amount) VALUES ($1, $2) RETURNING *',
      [payment, amount],
    );
    await this.ledger.note(payment, -amount);
    return rows[0];
  }
  // #endregion

  @Post(':id/refunds/announced')
  @Idempotent({ transaction: true })
  async announced(
    @Param('id') payment: string,
    @Body() { amount }: RefundDto,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    await this.ledger.note(payment, -amount);
    // #region hook
    context.onCommitted(() => this.mails.sendReceipt(payment));
    // #endregion
    return { payment };
  }
}

@Module({
  imports: [idempotency, DatabaseModule],
  controllers: [RefundsController],
  providers: [Ledger, Mails],
})
export class RefundsModule {}
