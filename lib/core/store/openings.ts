import type { RecordKey } from '../record/record.js';
import type { StoreObserver, StoreWarning } from './idempotency-store.js';

/** The observers of all openings of a store that are not yet closed. Each is notified of its events. */
export class Openings implements StoreObserver {
  private readonly observers: (StoreObserver | undefined)[] = [];

  add(observer: StoreObserver | undefined): void {
    this.observers.push(observer);
  }

  /** Returns whether no opening is left. Without an observer, removes any: a wrapper of the store may not pass it. */
  remove(observer: StoreObserver | undefined): boolean {
    const found = this.observers.indexOf(observer);
    const index = found < 0 && observer === undefined ? this.observers.length - 1 : found;
    if (index >= 0) this.observers.splice(index, 1);
    return this.observers.length === 0;
  }

  replyMismatched(error: Error): void {
    for (const observer of this.observers) observer?.replyMismatched(error);
  }

  /** @returns whether an observer was notified. */
  entryMissed(recordKey: RecordKey, reason: string): boolean {
    const listening = this.observers.filter((observer) => observer?.entryMissed !== undefined);
    for (const observer of listening) observer?.entryMissed?.(recordKey, reason);
    return listening.length > 0;
  }

  /** @returns whether an observer was notified. */
  warned(warning: StoreWarning): boolean {
    const listening = this.observers.filter((observer) => observer !== undefined);
    for (const observer of listening) observer.warned(warning);
    return listening.length > 0;
  }
}
