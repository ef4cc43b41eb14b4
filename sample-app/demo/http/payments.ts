import { randomUUID } from 'node:crypto';
import type { PaymentRequest } from './client.js';

export const PAYMENTS = 20;
export const COPIES = 10;

/** Alice's payments, each with its own key. */
export const payments: readonly PaymentRequest[] = Array.from({ length: PAYMENTS }, (_, index) =>
  newPayment(`payment ${index + 1}`, 1000 + index),
);

export function newPayment(description: string, amount = 4999): PaymentRequest {
  return { user: 'alice', key: randomUUID(), amount, description };
}
