/** One movement of money. Two charges with one reference are a customer who paid twice. */
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
  /** What the movement is for, in the words of whoever asked for it: the same in every attempt. */
  readonly reference: string;
  readonly userId: string;
  /** In minor units: 4999 is 49.99 EUR. */
  readonly amount: number;
  /** Grows with every attempt at one operation. */
  readonly fencingToken: number;
  readonly at: string;
}

/** What the lines that are looked for have in common. */
export type LedgerQuery = Partial<Pick<Refund, 'id' | 'reference' | 'chargeId'>>;

/** The provider's books: lines are added, never changed. */
export abstract class Ledger {
  /** @throws ProviderError when the books do not allow it: then nothing is added. */
  abstract append(entry: LedgerEntry): Promise<void>;
  /** Those lines that agree with the query in all that it names; without one, all of them. */
  abstract entries(query?: LedgerQuery): Promise<readonly LedgerEntry[]>;
}
