import { Controller, UseFilters } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { messageHeader } from 'nestjs-idempotency/message';
import { Bank, type Order } from '../bank.js';
import { ParkingFilter } from './parking.filter.js';

@Controller()
export class OrdersConsumer {
  constructor(private readonly bank: Bank) {}

  @EventPattern(['orders.placed'])
  @UseFilters(ParkingFilter)
  @Idempotent({
    operation: 'billing.charge',
    // The consumer group.
    message: { consumer: 'billing' },
    key: messageHeader('event-id'),
  })
  async charge(@Payload() order: Order, @IdempotencyContext() context: IdempotencyContext) {
    await this.bank.charge(order, { idempotencyKey: context.downstreamKey('bank/charge') });
  }
}
