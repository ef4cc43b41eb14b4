export interface Payment {
  readonly order: string;
  readonly amount: number;
}

/** The payment provider's client. */
export abstract class Payments {
  abstract find(order: string): Promise<Payment | undefined>;
  abstract charge(payment: Payment, key: string, signal: AbortSignal): Promise<Payment>;
}
