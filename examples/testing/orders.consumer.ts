import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { Payments, type Payment } from './payments.js';

@Controller()
export class OrdersConsumer {
  constructor(private readonly payments: Payments) {}

  @EventPattern('order.placed')
  @Idempotent({ message: { consumer: 'billing' } })
  async placed(@Payload() payment: Payment): Promise<void> {
    const { downstreamKey, signal } = requireIdempotencyContext();
    await this.payments.charge(payment, downstreamKey('bank/charge'), signal);
  }
}
