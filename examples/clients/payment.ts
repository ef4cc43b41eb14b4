export interface Payment {
  /** Made where the user decides to pay, once. */
  readonly key: string;
  readonly amount: number;
  readonly currency: string;
}

/** What each client of this folder sends to. */
export interface Api {
  readonly url: string;
  readonly token: string;
}
