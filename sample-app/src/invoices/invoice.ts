import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';

/** 40 MB. */
export const INVOICE_BYTES = 40_000_000;

const LINES_AT_ONCE = 500;

/** An invoice with a line for each item of a year. Its number is given once: a second one would be another invoice. */
export class Invoice {
  readonly number = randomUUID();

  constructor(private readonly paymentId: string) {}

  get fileName(): string {
    return `invoice-${this.number}.csv`;
  }

  /** As it is read: it is never in memory as a whole. */
  stream(): Readable {
    return Readable.from(this.#chunks(), { objectMode: false });
  }

  *#chunks(): Generator<Buffer> {
    let left = INVOICE_BYTES;
    for (let line = 0; left > 0; line += LINES_AT_ONCE) {
      const lines = Array.from({ length: LINES_AT_ONCE }, (_, each) => this.#line(line + each));
      const bytes = Buffer.from(lines.join('')).subarray(0, left);
      left -= bytes.length;
      yield bytes;
    }
  }

  #line(index: number): string {
    // Looks random, and is the same for the same line.
    const cents = Math.imul(index + 1, 2_654_435_761) >>> 12;
    return `${this.number};${this.paymentId};${index + 1};item ${cents % 997};${(cents / 100).toFixed(2)};EUR\r\n`;
  }
}
