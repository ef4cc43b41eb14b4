import type { TransactionValue } from '../../core/unit-of-work.js';

const PLACEHOLDER = /\$(\d+)/;

/** What `raw()` of Knex is called with. */
export interface RawQuery {
  readonly sql: string;
  readonly bindings: readonly (string | number | boolean | Buffer | null)[];
}

/** A statement with `$1`, `$2`, … as Knex has it: `?` by position, so a value that is named twice is sent twice. */
export function rawQuery(text: string, values: readonly TransactionValue[]): RawQuery {
  // Every other part is the number of a placeholder.
  const parts = text.split(PLACEHOLDER);
  const named = parts.filter((_, n) => n % 2 === 1);
  const between = parts.filter((_, n) => n % 2 === 0);
  return {
    sql: between.map((part) => part.replaceAll('?', '\\?')).join('?'),
    bindings: named.map((n) => binding(values[Number(n) - 1] ?? null)),
  };
}

/** Knex takes an array of another kind for several values. */
function binding(value: TransactionValue): string | number | boolean | Buffer | null {
  if (!(value instanceof Uint8Array)) return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
