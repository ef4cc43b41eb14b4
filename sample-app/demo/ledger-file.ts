import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Charge, LedgerEntry } from '../src/ledger/ledger.js';

const POLL_MS = 5;

/** Counts the charges independently: it reads the ledger's file. */
export class LedgerFile {
  readonly #charges: Charge[] = [];
  #readBytes = 0;

  constructor(private readonly path: string) {}

  /** Reads what was appended since the last call, up to the end of a line. */
  charges(): readonly Charge[] {
    const appended = readFrom(this.path, this.#readBytes);
    const complete = appended.subarray(0, appended.lastIndexOf('\n') + 1);
    this.#readBytes += complete.length;
    const lines = complete
      .toString('utf8')
      .split('\n')
      .filter((line) => line !== '');
    const entries = lines.map((line) => JSON.parse(line) as LedgerEntry);
    this.#charges.push(...entries.filter((entry) => entry.kind === 'charge'));
    return this.#charges;
  }

  async untilCharged(description: string): Promise<void> {
    while (!this.charges().some((charge) => charge.description === description)) {
      await sleep(POLL_MS);
    }
  }
}

function readFrom(path: string, position: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(fstatSync(file).size - position);
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, position));
  } finally {
    closeSync(file);
  }
}
