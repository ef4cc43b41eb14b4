import { Body, Controller, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Ledger, type Payment } from '../ledger.js';
import { ownRecord } from './legacy-own.js';

@Controller('payments')
export class PaymentsController {
  constructor(private readonly ledger: Ledger) {}

  @Post()
  @Idempotent({ lease: { onTakeover: ownRecord, recoverOn: 'always' } })
  pay(@Body() payment: Payment) {
    return this.ledger.charge(payment);
  }
}
