import { Ledger, type LedgerEntry } from './ledger.js';

export class MemoryLedger extends Ledger {
  readonly #entries: LedgerEntry[] = [];

  append(entry: LedgerEntry): void {
    this.#entries.push(entry);
  }

  entries(): readonly LedgerEntry[] {
    return this.#entries;
  }
}
