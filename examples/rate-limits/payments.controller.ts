import { Body, Controller, Post, UseInterceptors } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { ExecutionLimit } from './limits.js';
import { Payments, type Payment } from './payments.js';

@Controller('payments')
export class PaymentsController {
  constructor(private readonly payments: Payments) {}

  @Post()
  @UseInterceptors(ExecutionLimit) // above @Idempotent(): inside of it
  @Idempotent()
  charge(@Body() payment: Payment) {
    return this.payments.charge(payment);
  }
}
