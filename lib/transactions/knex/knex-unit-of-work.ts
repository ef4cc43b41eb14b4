import type { Knex } from 'knex';
import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runGuarded } from '../shared/guarded-handle.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import type { SqlTransaction, TransactionValue } from '../shared/sql-transaction.js';

class KnexUnitOfWork extends PostgresUnitOfWork<Knex.Transaction> {
  constructor(private readonly knex: Knex) {
    super();
    if (!isKnex(knex)) {
      throw new IdempotencyOptionsError(
        "knexUnitOfWork: knex must be the result of knex({ client: 'pg', … }), not a transaction.",
      );
    }
  }

  async run<Result>(
    { isolation }: TransactionOptions,
    work: (transaction: SqlTransaction<Knex.Transaction>) => Promise<Result>,
  ): Promise<Result> {
    let failure: { readonly error: unknown } | undefined;
    const run = async (transaction: Knex.Transaction): Promise<Result> => {
      try {
        return await runGuarded({ handle: transaction, query: queryOf(transaction) }, work);
      } catch (error) {
        failure = { error };
        throw error;
      }
    };
    try {
      const config = isolation === undefined ? {} : { isolationLevel: isolation };
      return await this.knex.transaction(run, config);
    } catch (error) {
      // On a lost connection, ROLLBACK fails, too, and Knex throws that error.
      throw failure === undefined ? error : failure.error;
    }
  }
}

type Rows = readonly object[];

function queryOf(transaction: Knex): SqlTransaction['query'] {
  return async (text, values) => {
    const { sql, bindings } = rawQuery(text, values);
    const result = await transaction.raw<Rows | { readonly rows: Rows }>(sql, bindings);
    // The application's postProcessResponse may have replaced the result by its rows.
    return 'rows' in result ? result.rows : result;
  };
}

export function isKnex(knex: unknown): boolean {
  return (
    typeof knex === 'function' &&
    'transaction' in knex &&
    typeof knex.transaction === 'function' &&
    !('isTransaction' in knex && knex.isTransaction === true)
  );
}

/**
 * Transactions of Knex, for transactional operations: the handler's writes and the record commit together. Does not
 * destroy `knex`.
 *
 * @param knex - the result of `knex({ client: 'pg', … })`, on the database of the records.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [KNEX],
 *   useFactory: (knex: Knex) => ({ store: postgresStore({ url }), unitOfWork: knexUnitOfWork(knex) }),
 * });
 * ```
 */
export function knexUnitOfWork(knex: Knex): PostgresUnitOfWork<Knex.Transaction> {
  return new KnexUnitOfWork(knex);
}

/** A quoted name or string, unchanged; the number of a placeholder; the question mark of an operator. */
const TOKEN = /"[^"]*"|\be'(?:[^'\\]|\\.|'')*'|'[^']*'|\$(\d+)|\?/gis;

/** The arguments of `raw()` of Knex. */
export interface RawQuery {
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
