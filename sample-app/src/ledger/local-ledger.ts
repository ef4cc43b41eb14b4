import { checkEntry } from './check-entry.js';
import { Ledger, type LedgerEntry, type LedgerQuery } from './ledger.js';

/** Books that are read and written at once, so that within a process nobody writes after the check. */
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
