import { Body, Controller, Post } from '@nestjs/common';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { findCharge } from './find-charge.js';
import { PaymentProvider, type Payment } from './payment-provider.js';

@Controller('payments')
export class PaymentsController {
  constructor(private readonly provider: PaymentProvider) {}

  @Post()
  @Idempotent({ operation: 'payments.charge', lease: { onTakeover: findCharge } })
  charge(@Body() payment: Payment, @IdempotencyContext() context: IdempotencyContext) {
    return this.provider.charge(payment, {
      idempotencyKey: context.downstreamKey('provider/charge'),
      signal: context.signal,
    });
  }
}
