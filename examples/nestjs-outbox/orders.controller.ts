import { Body, Controller, Post } from '@nestjs/common';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { IdempotencyContext, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import type { DrizzleTransaction } from 'nestjs-idempotency/drizzle';
import { Outbox } from './nestjs-outbox.js'; // In your application: '@nestjs/outbox'
import { type Order, orders, type schema } from './schema.js';

type Transaction = DrizzleTransaction<NodePgDatabase<typeof schema>>;

@Controller('orders')
export class OrdersController {
  constructor(private readonly outbox: Outbox) {}

  /** Commits three rows together, or none: the order, its event, and the record. */
  @Post()
  @Idempotent({ transaction: true })
  async place(
    @Body() order: Order,
    @IdempotencyTransaction() transaction: Transaction,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    await transaction.insert(orders).values(order);
    await this.outbox.add(transaction, {
      id: context.downstreamKey('order.placed'), // The same in every attempt: consumers skip repeats by it.
      topic: 'order.placed',
      payload: order,
    });
    context.onCommitted(() => this.outbox.notify()); // Publishes now, instead of at the next poll.
    return { placed: order.id };
  }
}
