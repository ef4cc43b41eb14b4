import type { TransactionOptions, UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runGuarded } from '../shared/guarded-handle.js';
import type { MysqlConnection } from '../shared/mysql-connections.js';
import {
  guardMysql2,
  restoringSession,
  runGuardedOnMysql,
  throwIfSerializable,
} from '../shared/mysql-guard.js';
import type { MysqlTransaction } from '../shared/mysql-transaction.js';
import { MysqlUnitOfWork } from '../shared/mysql-unit-of-work.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import { SQL_LEVELS, type SqlTransaction } from '../shared/sql-transaction.js';

/** The methods of a transaction that end it. */
const ENDINGS: readonly (string | symbol)[] = ['commit', 'rollback'];

class SequelizeOnPostgres<Transaction extends object> extends PostgresUnitOfWork<Transaction> {
  constructor(private readonly sequelize: SequelizeInstance<Transaction>) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    return inTransaction(this.sequelize, options, (handle) =>
      runGuarded({ handle, query: queryOf(this.sequelize, handle) }, work, ENDINGS),
    );
  }
}

class SequelizeOnMysql<Transaction extends object> extends MysqlUnitOfWork<Transaction> {
  constructor(private readonly sequelize: SequelizeInstance<Transaction>) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable(NAME, options);
    return restoringSession((kept) =>
      inTransaction(this.sequelize, options, (handle) => {
        const session = kept(guardMysql2((handle as SequelizeConnectionOwner).connection));
        return runGuardedOnMysql({ handle, session, endings: ENDINGS }, work);
      }),
    );
  }
}

const NAME = 'sequelizeUnitOfWork';

/** Its connection of mysql2 is in no declaration of Sequelize. */
interface SequelizeConnectionOwner {
  readonly connection: MysqlConnection;
}

/** The form of `transaction` with a callback: that of its other overload. */
interface ManagedTransactions<Transaction> {
  transaction<Result>(
    options: SequelizeTransactionOptions,
    work: (transaction: Transaction) => Promise<Result>,
  ): Promise<Result>;
}

function inTransaction<Transaction, Result>(
  sequelize: SequelizeInstance<Transaction>,
  { isolation }: TransactionOptions,
  work: (transaction: Transaction) => Promise<Result>,
): Promise<Result> {
  const options = isolation === undefined ? {} : { isolationLevel: SQL_LEVELS[isolation] };
  return (sequelize as unknown as ManagedTransactions<Transaction>).transaction(options, work);
}

function queryOf<Transaction>(
  sequelize: SequelizeInstance<Transaction>,
  transaction: Transaction,
): SqlTransaction['query'] {
  return async (text, values) => {
    const [rows] = await sequelize.query(
      text.replaceAll('$$', () => '$$$$'),
      {
        bind: [...values],
        transaction,
        // The values are the bytes of responses. In a transaction that has failed, no statement helps the second time.
        logging: false,
        retry: { max: 1 },
      },
    );
    return rows as readonly object[];
  };
}

/**
 * Transactions of Sequelize, for transactional operations: the handler's writes and the record commit together. Does not
 * close `sequelize`.
 *
 * @param sequelize - a `Sequelize` with dialect `postgres`, `mysql` or `mariadb` on `pg` or `mysql2`, on the database of the
 * records. Each request of a transactional operation holds one of its connections until its response.
 * @returns a `PostgresUnitOfWork` or a `MysqlUnitOfWork`, by the dialect.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [Sequelize],
 *   useFactory: (sequelize: Sequelize) => ({
 *     store: postgresStore({ url }),
 *     unitOfWork: sequelizeUnitOfWork(sequelize),
 *   }),
 * });
 * ```
 */
export function sequelizeUnitOfWork<Transaction extends object>(
  sequelize: SequelizeInstance<Transaction>,
): UnitOfWork<Transaction> {
  const dialect = isSequelize(sequelize) ? sequelize.getDialect() : undefined;
  if (dialect === 'postgres') return new SequelizeOnPostgres(sequelize);
  if (dialect === 'mysql') return new SequelizeOnMysql(sequelize);
  throw new IdempotencyOptionsError(
    `${NAME}: pass an instance of Sequelize 6 with the dialect "postgres" or "mysql", which serves MariaDB, too.`,
  );
}

function isSequelize(value: unknown): value is SequelizeInstance<object> {
  return (
    typeof value === 'object' &&
    value !== null &&
    ['transaction', 'query', 'getDialect'].every(
      (name) => typeof (value as Record<string, unknown>)[name] === 'function',
    )
  );
}

/** Options of a transaction of Sequelize. */
export interface SequelizeTransactionOptions {
  readonly isolationLevel?: string;
}

/** The part of an instance that is used. Structural, to compile without Sequelize. */
export interface SequelizeInstance<Transaction> {
  getDialect(): string;
  /** Only to infer the type: its form with a callback is called. */
  transaction(options?: SequelizeTransactionOptions): Promise<Transaction>;
  query(sql: string, options: object): Promise<[unknown, unknown]>;
}
