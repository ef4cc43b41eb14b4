import { appendFileSync, readFileSync } from 'node:fs';
import type { LedgerEntry } from './ledger.js';
import { LocalLedger } from './local-ledger.js';

/** One JSON document per line, so that several processes share the ledger and `wc -l` counts it. */
export class FileLedger extends LocalLedger {
  constructor(readonly path: string) {
    super();
    appendFileSync(path, '');
  }

  protected read(): readonly LedgerEntry[] {
    return this.#text().split('\n').flatMap(entryOf);
  }

  protected write(entry: LedgerEntry): void {
    const text = this.#text();
    // A line that a crash cut off must not corrupt the next one.
    const start = text === '' || text.endsWith('\n') ? '' : '\n';
    appendFileSync(this.path, `${start}${JSON.stringify(entry)}\n`);
  }

  #text(): string {
    return readFileSync(this.path, 'utf8');
  }
}

/** Returns nothing for an incomplete line: that movement was never confirmed. */
function entryOf(line: string): LedgerEntry[] {
  if (line === '') return [];
  try {
    return [JSON.parse(line) as LedgerEntry];
  } catch {
    return [];
  }
}
