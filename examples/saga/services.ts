export interface Order {
  readonly id: string;
  readonly amount: number;
}

/** How each service is called: it acts once per idempotency key. */
export interface Call {
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
}

/** A service's decision is a value. What is thrown may be different at the next attempt. */
export interface Decision {
  readonly accepted: boolean;
}

export abstract class Stock {
  abstract reserve(order: Order, call: Call): Promise<void>;
  abstract release(order: Order, call: Call): Promise<void>;
}

export abstract class Bank {
  abstract charge(order: Order, call: Call): Promise<Decision>;
  abstract refund(order: Order, call: Call): Promise<void>;
}

export abstract class Carrier {
  abstract ship(order: Order, call: Call): Promise<Decision>;
}
