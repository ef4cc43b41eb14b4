export abstract class Shipping {
  abstract prepare(orderId: string): Promise<void>;
}
