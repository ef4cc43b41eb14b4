import { Payments, type Payment } from './payments.js';

/** In production, a client of the bank. */
export class Bank extends Payments {
  find(_order: string): Promise<Payment | undefined> {
    return Promise.reject(new Error('A test reached the bank.'));
  }

  charge(_payment: Payment, _key: string, _signal: AbortSignal): Promise<Payment> {
    return Promise.reject(new Error('A test reached the bank.'));
  }
}
