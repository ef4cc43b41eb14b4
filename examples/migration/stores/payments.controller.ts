import { Body, Controller, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Ledger, type Payment } from '../ledger.js';
import { inOldStore } from './old-store.js';

@Controller('payments')
export class PaymentsController {
  constructor(private readonly ledger: Ledger) {}

  @Post()
  @Idempotent({
    operation: 'payments.pay',
    lease: { onTakeover: inOldStore, recoverOn: 'always' },
  })
  pay(@Body() payment: Payment) {
    return this.ledger.charge(payment);
  }
}
