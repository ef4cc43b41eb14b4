import { openSync, writeSync } from 'node:fs';

/**
 * Appends JSON documents, a line each, for several processes at a time. A line that was written is there
 * for good: it is the kernel's by then, and no death of the process takes it back.
 */
export class LineFile {
  readonly #descriptor: number;

  constructor(path: string) {
    this.#descriptor = openSync(path, 'a');
  }

  append(document: object): void {
    writeSync(this.#descriptor, `${JSON.stringify(document)}\n`);
  }
}
