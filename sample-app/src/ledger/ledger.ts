/** One movement of money. With two charges of one reference, a customer paid twice. */
export type LedgerEntry = Charge | Refund;

export interface Charge extends Movement {
  readonly kind: 'charge';
  readonly currency: string;
  readonly description: string | undefined;
}

export interface Refund extends Movement {
  readonly kind: 'refund';
  readonly chargeId: string;
}

interface Movement {
  readonly id: string;
  /** The client's description of the movement, the same in every attempt. */
  readonly reference: string;
  readonly userId: string;
  /** In minor units: 4999 is 49.99 EUR. */
  readonly amount: number;
  /** Increases with every attempt at one operation. */
  readonly fencingToken: number;
  readonly at: string;
}

/** Selects lines of the ledger. */
export type LedgerQuery = Partial<Pick<Refund, 'id' | 'reference' | 'chargeId'>>;

/** The provider's ledger: append-only. */
export abstract class Ledger {
  /** @throws ProviderError if the entry is not allowed; nothing is added then. */
  abstract append(entry: LedgerEntry): Promise<void>;
  /** Returns the lines that match all fields of the query; without a query, all lines. */
  abstract entries(query?: LedgerQuery): Promise<readonly LedgerEntry[]>;
}
