import type { Knex } from 'knex';
import type { TransactionOptions, UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runGuarded } from '../shared/guarded-handle.js';
import { knexQuery, type KnexTransactionLike } from '../shared/knex-statements.js';
import {
  guardMysql2,
  restoringSession,
  runGuardedOnMysql,
  throwIfSerializable,
} from '../shared/mysql-guard.js';
import type { MysqlTransaction } from '../shared/mysql-transaction.js';
import { MysqlUnitOfWork } from '../shared/mysql-unit-of-work.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import type { SqlTransaction } from '../shared/sql-transaction.js';

/** The methods of a transaction that end it. */
const ENDINGS: readonly (string | symbol)[] = ['commit', 'rollback'];

class KnexOnPostgres extends PostgresUnitOfWork<Knex.Transaction> {
  constructor(private readonly knex: Knex) {
    super();
  }

  run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Knex.Transaction>) => Promise<Result>,
  ): Promise<Result> {
    return inTransaction(this.knex, options, (handle) =>
      runGuarded({ handle, query: knexQuery(handle) }, work, ENDINGS),
    );
  }
}

class KnexOnMysql extends MysqlUnitOfWork<Knex.Transaction> {
  constructor(private readonly knex: Knex) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Knex.Transaction>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable(NAME, options);
    return restoringSession((kept) =>
      inTransaction(this.knex, options, async (handle) => {
        const { client } = handle as unknown as KnexTransactionLike;
        const session = kept(guardMysql2(await client.acquireConnection()));
        return runGuardedOnMysql({ handle, session, endings: ENDINGS }, work);
      }),
    );
  }
}

const NAME = 'knexUnitOfWork';

async function inTransaction<Result>(
  knex: Knex,
  { isolation }: TransactionOptions,
  work: (transaction: Knex.Transaction) => Promise<Result>,
): Promise<Result> {
  let failure: { readonly error: unknown } | undefined;
  const run = async (transaction: Knex.Transaction): Promise<Result> => {
    try {
      return await work(transaction);
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  try {
    return await knex.transaction(
      run,
      isolation === undefined ? {} : { isolationLevel: isolation },
    );
  } catch (error) {
    // On a lost connection, ROLLBACK fails, too, and Knex throws that error.
    throw failure === undefined ? error : failure.error;
  }
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
 * @param knex - the result of `knex({ client: 'pg', … })` or `knex({ client: 'mysql2', … })`, on the database of the
 * records.
 * @returns a `PostgresUnitOfWork` or a `MysqlUnitOfWork`, by the client.
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
export function knexUnitOfWork(knex: Knex): UnitOfWork<Knex.Transaction> {
  const driver = isKnex(knex) ? (knex.client as { readonly driverName?: unknown }).driverName : '';
  if (driver === 'mysql2') return new KnexOnMysql(knex);
  if (driver === 'pg') return new KnexOnPostgres(knex);
  throw new IdempotencyOptionsError(
    `${NAME}: knex must be the result of knex({ client: 'pg', … }) or knex({ client: 'mysql2', … }), not a transaction.`,
  );
}
