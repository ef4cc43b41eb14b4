import type { StoreObserver, StoreWarning } from './idempotency-store.js';

/** Who has opened a store and has not closed it yet: each of them is told of what befalls it. */
export class Openings implements StoreObserver {
  private readonly observers: (StoreObserver | undefined)[] = [];

  add(observer: StoreObserver | undefined): void {
    this.observers.push(observer);
  }

  /**
   * @param observer - who closes. Without one it is any of them: what stands around a store may not have passed it on.
   * @returns whether nobody is left.
   */
  remove(observer: StoreObserver | undefined): boolean {
    const found = this.observers.indexOf(observer);
    const index = found < 0 && observer === undefined ? this.observers.length - 1 : found;
    if (index >= 0) this.observers.splice(index, 1);
    return this.observers.length === 0;
  }

  replyMismatched(error: Error): void {
    for (const observer of this.observers) observer?.replyMismatched(error);
  }

  /** @returns whether anybody was told. */
  warned(warning: StoreWarning): boolean {
    const told = this.observers.filter((observer) => observer !== undefined);
    for (const observer of told) observer.warned(warning);
    return told.length > 0;
  }
}
