export interface Order {
  readonly id: string;
  readonly amount: number;
}

export abstract class Shop {
  abstract place(
    order: Order,
    options: { readonly idempotencyKey: string },
  ): Promise<{ placed: string }>;
}
