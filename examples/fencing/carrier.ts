/** Prints labels. */
export abstract class Carrier {
  abstract print(order: string): Promise<string>;
}
