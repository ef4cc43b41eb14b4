export interface PlacedOrder {
  readonly id: string;
  readonly items: readonly string[];
}

export abstract class Orders {
  abstract insert(customer: string, items: readonly string[]): Promise<PlacedOrder>;
}
