export interface Order {
  readonly id: string;
  readonly amount: number;
  /** Whether the carrier refuses it, after the charge. */
  readonly isRefused: boolean;
}

export interface Charge {
  readonly number: number;
}

/** A bank without keys: it charges as often as it is called. */
export abstract class Bank {
  abstract charge(order: Order): Promise<Charge>;
  abstract refund(charge: Charge): Promise<void>;
}
