import { Payments, type Payment } from './payments.js';

/** Records charges in memory, with their keys. */
export class TestPayments extends Payments {
  readonly charged: { readonly payment: Payment; readonly key: string }[] = [];

  find(order: string): Promise<Payment | undefined> {
    const found = this.charged.find(({ payment }) => payment.order === order);
    return Promise.resolve(found?.payment);
  }

  charge(payment: Payment, key: string, signal: AbortSignal): Promise<Payment> {
    signal.throwIfAborted();
    this.charged.push({ payment, key });
    return Promise.resolve(payment);
  }
}
