import { checkEntry } from './check-entry.js';
import { Ledger, type LedgerEntry, type LedgerQuery } from './ledger.js';

/** A ledger that checks and writes synchronously, so that no other write of this process comes in between. */
export abstract class LocalLedger extends Ledger {
  append(entry: LedgerEntry): Promise<void> {
    return new Promise((resolve) => {
      checkEntry(entry, this.read());
      this.write(entry);
      resolve();
    });
  }

  entries(query: LedgerQuery = {}): Promise<readonly LedgerEntry[]> {
    return Promise.resolve(this.read().filter((entry) => matches(entry, query)));
  }

  protected abstract read(): readonly LedgerEntry[];
  protected abstract write(entry: LedgerEntry): void;
}

function matches(entry: LedgerEntry, query: LedgerQuery): boolean {
  const values: Readonly<Record<string, unknown>> = { ...entry };
  return Object.entries(query).every(([name, value]) => values[name] === value);
}
