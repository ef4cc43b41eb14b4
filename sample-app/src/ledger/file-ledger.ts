import { appendFileSync, readFileSync } from 'node:fs';
import { Ledger, type LedgerEntry } from './ledger.js';

/** A JSON document per line, so that several processes share the ledger and `wc -l` counts it. */
export class FileLedger extends Ledger {
  constructor(readonly path: string) {
    super();
    appendFileSync(path, '');
  }

  append(entry: LedgerEntry): void {
    appendFileSync(this.path, `${JSON.stringify(entry)}\n`);
  }

  entries(): readonly LedgerEntry[] {
    return readFileSync(this.path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as LedgerEntry);
  }
}
