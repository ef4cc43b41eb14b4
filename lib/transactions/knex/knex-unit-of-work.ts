import type { Knex } from 'knex';
import {
  UnitOfWork,
  type OpenTransaction,
  type TransactionOptions,
  type TransactionValue,
} from '../../core/transaction/unit-of-work.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { runGuarded } from '../shared/guarded-handle.js';

class KnexUnitOfWork extends UnitOfWork<Knex.Transaction> {
  constructor(private readonly knex: Knex) {
    super();
    if (!isKnex(knex)) {
      throw new IdempotencyOptionsError(
        "knexUnitOfWork: knex must be what knex({ client: 'pg', … }) makes, and no transaction.",
      );
    }
  }

  async run<Result>(
    { isolation }: TransactionOptions,
    work: (transaction: OpenTransaction<Knex.Transaction>) => Promise<Result>,
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
      // On a lost connection ROLLBACK fails, too, and Knex throws that.
      throw failure === undefined ? error : failure.error;
    }
  }
}

type Rows = readonly object[];

function queryOf(transaction: Knex): OpenTransaction['query'] {
  return async (text, values) => {
    const { sql, bindings } = rawQuery(text, values);
    const result = await transaction.raw<Rows | { readonly rows: Rows }>(sql, bindings);
    // The application's postProcessResponse may have taken them out.
    return 'rows' in result ? result.rows : result;
  };
}

function isKnex(knex: unknown): boolean {
  return (
    typeof knex === 'function' &&
    'transaction' in knex &&
    typeof knex.transaction === 'function' &&
    !('isTransaction' in knex && knex.isTransaction === true)
  );
}

/**
 * Transactions of Knex: in the transactional mode the business writes and the record commit together. It closes
 * nothing; `knex` stays the application's.
 *
 * @param knex - what `knex({ client: 'pg', … })` makes, to the database that the records are in.
 * @throws {@link IdempotencyOptionsError} when it is none.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [KNEX],
 *   useFactory: (knex: Knex) => ({ store: postgresStore({ url }), unitOfWork: knexUnitOfWork(knex) }),
 * });
 * ```
 */
export function knexUnitOfWork(knex: Knex): UnitOfWork<Knex.Transaction> {
  return new KnexUnitOfWork(knex);
}

/** A quoted name or a string, which mean what they say; the number of a placeholder; an operator's question mark. */
const TOKEN = /"[^"]*"|\be'(?:[^'\\]|\\.|'')*'|'[^']*'|\$(\d+)|\?/gis;

/** What `raw()` of Knex is called with. */
export interface RawQuery {
  readonly sql: string;
  readonly bindings: readonly (string | number | boolean | Buffer | null)[];
}

/** A statement with `$1`, `$2`, … as Knex has it: `?` by position, so a value that is named twice is sent twice. */
function rawQuery(text: string, values: readonly TransactionValue[]): RawQuery {
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
