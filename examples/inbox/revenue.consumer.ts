import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { Idempotent, IdempotencyTransaction } from 'nestjs-idempotency';
import { payloadField } from 'nestjs-idempotency/message';
import type { PgTransaction } from 'nestjs-idempotency/pg';
import type { Pool } from 'pg';

/** What the outbox publishes: its id is the same at every delivery. */
export interface Envelope {
  readonly id: string;
  readonly payload: { readonly id: string; readonly amount: number };
}

@Controller()
export class RevenueConsumer {
  /** Commits the row and the record of the message together, and acknowledges it after that. */
  @EventPattern(['order.placed'])
  @Idempotent({
    operation: 'revenue.record',
    message: { consumer: 'revenue' },
    key: payloadField('id'),
    transaction: true,
  })
  async record(
    @Payload() { payload }: Envelope,
    @IdempotencyTransaction() transaction: PgTransaction<Pool>,
  ) {
    await transaction.query('INSERT INTO revenue (order_id, amount) VALUES ($1, $2)', [
      payload.id,
      payload.amount,
    ]);
  }
}
