import { Injectable } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Ledger, type Payment } from '../ledger.js';
import { powertoolsRecord } from './legacy-powertools.js';

@Injectable()
export class Payments {
  constructor(private readonly ledger: Ledger) {}

  @Idempotent({
    operation: 'payments.pay',
    key: ({ order }: Payment) => order,
    scope: () => [], // Powertools' records have no caller.
    payload: (payment) => payment,
    lease: { onTakeover: powertoolsRecord('payments'), recoverOn: 'always' },
  })
  pay(payment: Payment) {
    return this.ledger.charge(payment);
  }
}
