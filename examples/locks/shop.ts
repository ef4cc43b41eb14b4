export abstract class Shop {
  /** Refuses the write of a run whose token is lower than the last one's. */
  abstract countStock(fencingToken: number): Promise<void>;
  abstract sendInvoices(options: { readonly idempotencyKey: string }): Promise<void>;
}
