import { Injectable } from '@nestjs/common';
import {
  Idempotent,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
} from 'nestjs-idempotency';
import type { PgTransaction } from 'nestjs-idempotency/pg';
import type { Pool } from 'pg';

export interface Order {
  readonly id: string;
  readonly amount: number;
}

@Injectable()
export class Orders {
  /** Commits three rows together, or none: the order, its outbox message, and the record. */
  @Idempotent({
    operation: 'orders.place',
    key: ({ id }: Order) => id,
    scope: () => [], // The id is that of the row: no client chooses it.
    payload: (order) => order,
    transaction: true,
  })
  async place({ id, amount }: Order): Promise<{ placed: string }> {
    const transaction = requireIdempotencyTransaction<PgTransaction<Pool>>();
    await transaction.query('INSERT INTO orders (id, amount) VALUES ($1, $2)', [id, amount]);
    // The same for every attempt and every publication: consumers use it as the key.
    const messageId = requireIdempotencyContext().downstreamKey('orders.placed');
    await transaction.query('INSERT INTO outbox (message_id, topic, payload) VALUES ($1, $2, $3)', [
      messageId,
      'orders.placed',
      { id, amount },
    ]);
    return { placed: id };
  }
}
