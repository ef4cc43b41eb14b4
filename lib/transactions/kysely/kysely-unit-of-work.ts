import type { Kysely, Transaction } from 'kysely';
import type { TransactionOptions, UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runGuarded } from '../shared/guarded-handle.js';
import { guardKysely, kyselyQuery, type KyselyLike } from '../shared/kysely-statements.js';
import { restoringSession, runGuardedOnMysql, throwIfSerializable } from '../shared/mysql-guard.js';
import type { MysqlTransaction } from '../shared/mysql-transaction.js';
import { MysqlUnitOfWork } from '../shared/mysql-unit-of-work.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import type { SqlTransaction } from '../shared/sql-transaction.js';

class KyselyOnPostgres<Database> extends PostgresUnitOfWork<Transaction<Database>> {
  constructor(private readonly db: Kysely<Database>) {
    super();
  }

  run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Transaction<Database>>) => Promise<Result>,
  ): Promise<Result> {
    return inTransaction(this.db, options, (handle) =>
      runGuarded<Transaction<Database>, Result>({ handle, query: queryOf(handle) }, work),
    );
  }
}

class KyselyOnMysql<Database> extends MysqlUnitOfWork<Transaction<Database>> {
  constructor(private readonly db: Kysely<Database>) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Transaction<Database>>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable(NAME, options);
    return restoringSession((kept) =>
      inTransaction(this.db, options, async (handle) => {
        const session = kept(await guardKysely(handle as unknown as KyselyLike));
        return runGuardedOnMysql<Transaction<Database>, Result>({ handle, session }, work);
      }),
    );
  }
}

const NAME = 'kyselyUnitOfWork';

async function inTransaction<Database, Result>(
  db: Kysely<Database>,
  { isolation }: TransactionOptions,
  work: (transaction: Transaction<Database>) => Promise<Result>,
): Promise<Result> {
  // A controlled transaction: `transaction().execute()` would accept statements during COMMIT.
  const start = db.startTransaction();
  const transaction = await (
    isolation === undefined ? start : start.setIsolationLevel(isolation)
  ).execute();
  try {
    const result = await work(transaction);
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

/** @param db - a transaction, or a connection. */
export function queryOf<Database>(db: Kysely<Database>): SqlTransaction['query'] {
  return kyselyQuery(db as unknown as KyselyLike);
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
 * On PostgreSQL, Kysely does not listen to errors of checked-out connections: one that fails between statements ends the
 * process. Call `pool.on('connect', (client) => client.on('error', () => undefined))` on its pool.
 *
 * @param db - a `Kysely` with `PostgresDialect` or `MysqlDialect`, on the database of the records.
 * @returns a `PostgresUnitOfWork` or a `MysqlUnitOfWork`, by the dialect.
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
): UnitOfWork<Transaction<Database>> {
  if (!isKysely(db)) {
    throw new IdempotencyOptionsError(
      `${NAME}: db must be a Kysely of kysely 0.28 or later, not a transaction.`,
    );
  }
  return isOnMysql(db) ? new KyselyOnMysql(db) : new KyselyOnPostgres(db);
}

/** By what the dialect can do: the names of its classes do not survive a bundler. */
function isOnMysql<Database>(db: Kysely<Database>): boolean {
  const { supportsReturning, supportsTransactionalDdl } = db.getExecutor().adapter;
  return !supportsReturning && !supportsTransactionalDdl;
}
