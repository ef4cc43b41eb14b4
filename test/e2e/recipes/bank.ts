export interface Order {
  readonly id: string;
  readonly amount: number;
}

/** The bank refuses this order, now and later. */
export class OrderRefusedError extends Error {}

/** The client of a bank that charges once per idempotency key. */
export abstract class Bank {
  /** @throws {@link OrderRefusedError} */
  abstract charge(order: Order, options: { readonly idempotencyKey: string }): Promise<void>;
}
