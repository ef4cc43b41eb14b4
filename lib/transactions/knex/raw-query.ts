import type { TransactionValue } from '../../core/transaction/unit-of-work.js';
import { asBuffer } from '../../core/util/as-buffer.js';

/** A quoted name or a string, which mean what they say; the number of a placeholder; an operator's question mark. */
const TOKEN = /"[^"]*"|\be'(?:[^'\\]|\\.|'')*'|'[^']*'|\$(\d+)|\?/gis;

/** What `raw()` of Knex is called with. */
export interface RawQuery {
  readonly sql: string;
  readonly bindings: readonly (string | number | boolean | Buffer | null)[];
}

/** A statement with `$1`, `$2`, … as Knex has it: `?` by position, so a value that is named twice is sent twice. */
export function rawQuery(text: string, values: readonly TransactionValue[]): RawQuery {
  const bindings: RawQuery['bindings'][number][] = [];
  const sql = text.replace(TOKEN, (token: string, place: string | undefined) => {
    if (place === undefined) return token.replaceAll('?', '\\?');
    bindings.push(binding(values[Number(place) - 1] ?? null));
    return '?';
  });
  return { sql, bindings };
}

/** Knex takes an array of another kind for several values. */
function binding(value: TransactionValue): string | number | boolean | Buffer | null {
  return value instanceof Uint8Array ? asBuffer(value) : value;
}
