import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Charge, LedgerEntry } from '../src/ledger/ledger.js';

const POLL_MS = 5;

/** Counts the charges independently: it reads the ledger's file. */
export class LedgerFile {
  constructor(private readonly path: string) {}

  charges(): Charge[] {
    return readFileSync(this.path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as LedgerEntry)
      .filter((entry) => entry.kind === 'charge');
  }

  async untilCharged(description: string): Promise<void> {
    while (!this.charges().some((charge) => charge.description === description)) {
      await sleep(POLL_MS);
    }
  }
}
