import type { TransactionOptions, UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import type { PgClient } from '../shared/executor-connections.js';
import { runOn } from '../shared/checked-out.js';
import { beginWithin, runGuarded } from '../shared/guarded-handle.js';
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
import {
  SQL_LEVELS,
  type SqlTransaction,
  type TransactionValue,
} from '../shared/sql-transaction.js';

class TypeOrmOnPostgres<Manager extends object> extends PostgresUnitOfWork<Manager> {
  constructor(private readonly dataSource: TypeOrmDataSource<Manager>) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Manager>) => Promise<Result>,
  ): Promise<Result> {
    const checkedOut = await CheckedOutRunner.checkOut(this.dataSource.createQueryRunner());
    const query: SqlTransaction['query'] = (text, values) => checkedOut.query(text, values);
    return runOn(checkedOut, options, () => {
      const { manager: handle, lost } = checkedOut;
      return runGuarded({ handle, query, lost, cut: () => checkedOut.cut() }, work);
    });
  }
}

class TypeOrmOnMysql<Manager extends object> extends MysqlUnitOfWork<Manager> {
  constructor(private readonly dataSource: TypeOrmDataSource<Manager>) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Manager>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable(NAME, options);
    const checkedOut = await CheckedOutRunner.checkOut(this.dataSource.createQueryRunner());
    return restoringSession((kept) =>
      runOn(checkedOut, options, () => {
        const session = kept(guardMysql2(checkedOut.connection as unknown as MysqlConnection));
        const { manager: handle, lost } = checkedOut;
        return runGuardedOnMysql({ handle, session, lost, cut: () => checkedOut.cut() }, work);
      }),
    );
  }
}

const NAME = 'typeOrmUnitOfWork';

/**
 * Transactions of TypeORM, for transactional operations: the handler's writes and the record commit together. Handlers
 * get the `EntityManager` of their transaction. Does not destroy the data source.
 *
 * @param dataSource - a `DataSource` of TypeORM on pg or mysql2, on the database of the records. Each request of a
 * transactional operation holds one of its connections until its response; with replication, one of the primary.
 * @returns a `PostgresUnitOfWork` or a `MysqlUnitOfWork`, by the type of the data source.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [DataSource],
 *   useFactory: (dataSource: DataSource) => ({
 *     store: postgresStore({ url }),
 *     unitOfWork: typeOrmUnitOfWork(dataSource),
 *   }),
 * });
 * ```
 */
export function typeOrmUnitOfWork<Manager extends object>(
  dataSource: TypeOrmDataSource<Manager>,
): UnitOfWork<Manager> {
  if (isTypeOrmDataSource(dataSource)) return new TypeOrmOnPostgres(dataSource);
  if (isTypeOrmDataSource(dataSource, MYSQL_TYPES)) return new TypeOrmOnMysql(dataSource);
  throw new IdempotencyOptionsError(
    `${NAME}: the data source must be a DataSource of TypeORM with type "postgres", "mysql" or "mariadb".`,
  );
}

/**
 * The part of a data source that is used: any `DataSource` of TypeORM. Structural, to compile without TypeORM.
 *
 * @typeParam Manager - the `EntityManager` of TypeORM.
 */
export interface TypeOrmDataSource<Manager> {
  readonly options: { readonly type: string };
  createQueryRunner(): TypeOrmQueryRunner<Manager>;
}

/** A connection checked out from the pool of the data source. */
export interface TypeOrmQueryRunner<Manager> {
  readonly manager: Manager;
  readonly isTransactionActive: boolean;
  connect(): Promise<TypeOrmConnection>;
  startTransaction(isolationLevel?: TypeOrmIsolationLevel): Promise<void>;
  commitTransaction(): Promise<void>;
  rollbackTransaction(): Promise<void>;
  query(
    text: string,
    values: unknown[],
    useStructuredResult: true,
  ): Promise<{ readonly records: object[] }>;
  release(): Promise<void>;
}

/** Its client of pg, or its connection of mysql2. */
export interface TypeOrmConnection extends PgClient {
  /** Of mysql2: `end` would wait for the server. */
  destroy?(): void;
  on(event: 'error' | 'end', listener: (error: Error) => void): unknown;
  off(event: 'error' | 'end', listener: (error: Error) => void): unknown;
}

/** The names of isolation levels in TypeORM. */
export type TypeOrmIsolationLevel = 'READ COMMITTED' | 'REPEATABLE READ' | 'SERIALIZABLE';

/** Not `aurora-postgres`, whose connections cannot be lost or closed. */
const POSTGRES_TYPES = ['postgres'];
const MYSQL_TYPES = ['mysql', 'mariadb'];

export function isTypeOrmDataSource<Source>(
  source: Source,
  types: readonly unknown[] = POSTGRES_TYPES,
): source is Source & TypeOrmDataSource<unknown> {
  return (
    typeof source === 'object' &&
    source !== null &&
    'createQueryRunner' in source &&
    typeof source.createQueryRunner === 'function' &&
    'options' in source &&
    types.includes((source.options as { readonly type?: unknown } | undefined)?.type)
  );
}

/** A query runner with a connection, checked out for one transaction. */
class CheckedOutRunner<Manager> {
  private readonly losing = new AbortController();
  private isReturned = false;

  private constructor(
    private readonly runner: TypeOrmQueryRunner<Manager>,
    readonly connection: TypeOrmConnection,
  ) {
    connection.on('error', this.onLost);
    connection.on('end', this.onLost);
  }

  static async checkOut<Manager>(
    runner: TypeOrmQueryRunner<Manager>,
  ): Promise<CheckedOutRunner<Manager>> {
    return new CheckedOutRunner(runner, await runner.connect());
  }

  get manager(): Manager {
    return this.runner.manager;
  }

  /** Aborted when the connection is lost. */
  get lost(): AbortSignal {
    return this.losing.signal;
  }

  /** @throws the error of TypeORM, or that no reply arrived in time: then the connection was cut. */
  begin({ isolation, timeoutMs }: TransactionOptions): Promise<void> {
    const begun = this.runner.startTransaction(isolation && SQL_LEVELS[isolation]);
    return beginWithin(timeoutMs, begun, () => this.cut());
  }

  async query(text: string, values: readonly TransactionValue[]): Promise<readonly object[]> {
    // Without the third argument, an UPDATE … RETURNING returns more than its rows.
    const { records } = await this.runner.query(text, [...values], true);
    return records;
  }

  async commit(): Promise<void> {
    await this.runner.commitTransaction();
    // TypeORM has then ended a nested transaction in place of this one.
    if (this.runner.isTransactionActive) {
      throw new Error(
        'A nested transaction was open when the handler returned. Await all writes before the handler returns.',
      );
    }
  }

  /** Never rejects: if it fails, the connection is closed, and the transaction with it. */
  async rollBack(): Promise<void> {
    if (!this.runner.isTransactionActive) return;
    await this.runner.rollbackTransaction().catch(() => undefined);
    // TypeScript does not know that the call changed it.
    if (this.runner.isTransactionActive as boolean) this.cut();
  }

  /** Closes the connection, regardless of running statements: the pool then drops it. */
  cut(): void {
    if (this.isReturned) return;
    if (this.connection.destroy === undefined) this.connection.end().catch(() => undefined);
    else this.connection.destroy();
  }

  async release(): Promise<void> {
    this.isReturned = true;
    try {
      await this.runner.release();
    } finally {
      this.connection.off('error', this.onLost);
      this.connection.off('end', this.onLost);
    }
  }

  private readonly onLost = () => this.losing.abort();
}
