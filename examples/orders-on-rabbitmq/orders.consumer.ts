import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { Bank, type Order } from '../bank.js';

@Controller()
export class OrdersConsumer {
  constructor(private readonly bank: Bank) {}

  @EventPattern(['order.placed'])
  @Idempotent({ operation: 'billing.charge', message: { consumer: 'billing' } })
  async charge(@Payload() order: Order, @IdempotencyContext() context: IdempotencyContext) {
    await this.bank.charge(order, { idempotencyKey: context.downstreamKey('bank/charge') });
  }
}
