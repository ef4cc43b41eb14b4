import { Body, Controller, Post } from '@nestjs/common';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { Payments, type Payment } from './payments.js';

@Controller('orders')
export class OrdersController {
  constructor(private readonly payments: Payments) {}

  @Post()
  @Idempotent()
  async pay(@Body() payment: Payment, @IdempotencyContext() context: IdempotencyContext) {
    const { isTakeover, downstreamKey, signal } = context;
    const paid = isTakeover ? await this.payments.find(payment.order) : undefined;
    return paid ?? this.payments.charge(payment, downstreamKey('bank/charge'), signal);
  }
}
