import type { LedgerEntry } from './ledger.js';
import { LocalLedger } from './local-ledger.js';

export class MemoryLedger extends LocalLedger {
  readonly #entries: LedgerEntry[] = [];

  protected read(): readonly LedgerEntry[] {
    return this.#entries;
  }

  protected write(entry: LedgerEntry): void {
    this.#entries.push(entry);
  }
}
