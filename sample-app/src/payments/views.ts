import type { Charge, Refund } from '../ledger/ledger.js';

/** A payment as the API shows it: what the ledger knows, less what is nobody's business. */
export interface PaymentView {
  readonly id: string;
  readonly amount: number;
  readonly currency: string;
  readonly description: string | undefined;
  readonly refunded: number;
  readonly createdAt: string;
}

export interface RefundView {
  readonly id: string;
  readonly paymentId: string;
  readonly amount: number;
  readonly createdAt: string;
}

export function paymentView(charge: Charge, refunded: number): PaymentView {
  const { id, amount, currency, description, at } = charge;
  return { id, amount, currency, description, refunded, createdAt: at };
}

export function refundView({ id, chargeId, amount, at }: Refund): RefundView {
  return { id, paymentId: chargeId, amount, createdAt: at };
}
