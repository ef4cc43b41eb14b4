import { CompiledQuery, type Kysely, type Transaction } from 'kysely';
import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runGuarded } from '../shared/guarded-handle.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import type { SqlTransaction } from '../shared/sql-transaction.js';

class KyselyUnitOfWork<Database> extends PostgresUnitOfWork<Transaction<Database>> {
  constructor(private readonly db: Kysely<Database>) {
    super();
    if (!isKysely(db)) {
      throw new IdempotencyOptionsError(
        'kyselyUnitOfWork: db must be a Kysely of kysely 0.28 or later, not a transaction.',
      );
    }
  }

  async run<Result>(
    { isolation }: TransactionOptions,
    work: (transaction: SqlTransaction<Transaction<Database>>) => Promise<Result>,
  ): Promise<Result> {
    // A controlled transaction: `transaction().execute()` would accept statements during COMMIT.
    const start = this.db.startTransaction();
    const transaction = await (
      isolation === undefined ? start : start.setIsolationLevel(isolation)
    ).execute();
    try {
      const opened = { handle: transaction, query: queryOf(transaction) };
      const result = await runGuarded<Transaction<Database>, Result>(opened, work);
      await transaction.commit().execute();
      return result;
    } catch (error) {
      // If that fails, the connection is lost, and the transaction with it.
      await transaction
        .rollback()
        .execute()
        .catch(() => undefined);
      throw error;
    }
  }
}

/** @param db - a transaction, or a connection. */
export function queryOf<Database>(db: Kysely<Database>): SqlTransaction['query'] {
  // Plugins are meant for rows of the application: CamelCasePlugin would rename the columns.
  const plain = db.withoutPlugins();
  return async (text, values) => {
    const { rows } = await plain.executeQuery<object>(CompiledQuery.raw(text, [...values]));
    return rows;
  };
}

export function isKysely(db: unknown): boolean {
  return (
    typeof db === 'object' &&
    db !== null &&
    'startTransaction' in db &&
    typeof db.startTransaction === 'function' &&
    'isTransaction' in db &&
    db.isTransaction === false
  );
}

/**
 * Transactions of Kysely, for transactional operations: the handler's writes and the record commit together. Does not
 * destroy `db`.
 *
 * Kysely does not listen to errors of checked-out connections: one that fails between statements ends the process. Call
 * `pool.on('connect', (client) => client.on('error', () => undefined))` on its pool.
 *
 * @param db - a `Kysely` with `PostgresDialect`, on the database of the records.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [DB],
 *   useFactory: (db: Kysely<Tables>) => ({ store: postgresStore({ url }), unitOfWork: kyselyUnitOfWork(db) }),
 * });
 * ```
 */
export function kyselyUnitOfWork<Database>(
  db: Kysely<Database>,
): PostgresUnitOfWork<Transaction<Database>> {
  return new KyselyUnitOfWork(db);
}
