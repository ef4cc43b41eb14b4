export interface Order {
  readonly id: string;
  readonly amount: number;
}

/** The bank rejects this order, now and later. */
export class OrderRejectedError extends Error {}

/** The client of a bank that charges once per idempotency key. */
export abstract class Bank {
  /** @throws {@link OrderRejectedError} */
  abstract charge(order: Order, options: { readonly idempotencyKey: string }): Promise<void>;
}
