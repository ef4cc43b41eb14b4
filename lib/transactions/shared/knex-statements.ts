import { asBuffer } from '../../core/util/as-buffer.js';
import type { MysqlConnection } from './mysql-connections.js';
import type { SqlTransaction, TransactionValue } from './sql-transaction.js';

/** A transaction of Knex, or Knex itself. Structural: MikroORM 6 has one, and exports no Knex. */
export interface KnexLike {
  raw<Result>(sql: string, bindings: RawQuery['bindings']): PromiseLike<Result>;
}

/** What each transaction of Knex has. */
export interface KnexTransactionLike extends KnexLike {
  readonly client: { acquireConnection(): Promise<MysqlConnection> };
}

type Rows = readonly object[];

/** Runs statements of PostgreSQL. */
export function knexQuery(transaction: KnexLike): SqlTransaction['query'] {
  return async (text, values) => {
    const { sql, bindings } = rawQuery(text, values);
    try {
      const result = await transaction.raw<Rows | { readonly rows: Rows }>(sql, bindings);
      // The application's postProcessResponse may have replaced the result by its rows.
      return 'rows' in result ? result.rows : result;
    } catch (error) {
      throw withoutStatement(error, sql);
    }
  };
}

/**
 * Knex puts the statement in front of what the server says: dozens of lines in a log that names the failure. It writes a
 * value into it where a string of the statement has a question mark, so that only what follows the last one is the same.
 */
function withoutStatement(error: unknown, sql: string): unknown {
  if (!(error instanceof Error)) return error;
  const end = `${sql.slice(sql.lastIndexOf('?') + 1)} - `;
  const place = error.message.indexOf(end);
  if (place !== -1) error.message = error.message.slice(place + end.length);
  return error;
}

/** A quoted name or string, unchanged; the number of a placeholder; the question mark of an operator. */
const TOKEN = /"[^"]*"|\be'(?:[^'\\]|\\.|'')*'|'[^']*'|\$(\d+)|\?/gis;

/** The arguments of `raw()` of Knex. */
interface RawQuery {
  readonly sql: string;
  readonly bindings: readonly (string | number | boolean | Buffer | null)[];
}

/** Converts `$1`, `$2`, … to `?` by position: a value that is named twice is sent twice. */
function rawQuery(text: string, values: readonly TransactionValue[]): RawQuery {
  const bindings: RawQuery['bindings'][number][] = [];
  const sql = text.replace(TOKEN, (token: string, place: string | undefined) => {
    if (place === undefined) return token.replaceAll('?', '\\?');
    bindings.push(binding(values[Number(place) - 1] ?? null));
    return '?';
  });
  return { sql, bindings };
}

/** Knex expands other typed arrays to several values. */
function binding(value: TransactionValue): string | number | boolean | Buffer | null {
  return value instanceof Uint8Array ? asBuffer(value) : value;
}
