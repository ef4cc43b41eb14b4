import { Injectable } from '@nestjs/common';
import { IdempotencyService } from 'nestjs-idempotency';
import { Bank, type Charge, type Order } from './bank.js';

@Injectable()
export class PaymentsService {
  constructor(
    private readonly idempotency: IdempotencyService,
    private readonly bank: Bank,
  ) {}

  /** @param key - `idempotencyKey` of the step: `<instance>:<step>`, the same whenever it runs. */
  charge(order: Order, key: string): Promise<Charge> {
    return this.once('payments.charge', key, order, () => this.bank.charge(order));
  }

  refund(charge: Charge, key: string): Promise<void> {
    return this.once('payments.refund', key, charge, () => this.bank.refund(charge));
  }

  private once<Value>(
    operation: string,
    key: string,
    payload: object,
    act: () => Promise<Value>,
  ): Promise<Value> {
    const options = {
      operation,
      key,
      scope: 'order-fulfilment',
      payload,
      // The journal goes on only after the value is stored here.
      storeErrors: { whenNotSaved: 'error' },
      // Two workers at one step take the same way.
      duplicates: { mode: 'wait', timeout: '1m' },
      // Longer than an instance can be retried.
      outcome: { retention: '30d' },
    } as const;
    return this.idempotency.run(options, act);
  }
}
