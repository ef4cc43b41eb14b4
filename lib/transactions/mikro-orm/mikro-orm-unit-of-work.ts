import type { TransactionOptions, UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { runGuarded } from '../shared/guarded-handle.js';
import { knexQuery, type KnexTransactionLike } from '../shared/knex-statements.js';
import { guardKysely, kyselyQuery, type KyselyLike } from '../shared/kysely-statements.js';
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

const NAME = 'mikroOrmUnitOfWork';

/** The methods of an entity manager that begin or end its transaction. `transactional` is a savepoint. */
const ENDINGS: readonly (string | symbol)[] = ['begin', 'commit', 'rollback'];

class MikroOrmOnPostgres<Em extends MikroOrmEntityManager> extends PostgresUnitOfWork<Em> {
  constructor(private readonly orm: MikroOrmInstance<Em>) {
    super();
  }

  run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Em>) => Promise<Result>,
  ): Promise<Result> {
    return inTransaction(this.orm, options, (em, context) => {
      const query = isKysely(context) ? kyselyQuery(context) : knexQuery(context);
      const flushed = async (transaction: SqlTransaction<Em>) => {
        const result = await work(transaction);
        // Its own flush would come after the last look at the transaction.
        await em.flush();
        return result;
      };
      return runGuarded({ handle: em, query }, flushed, ENDINGS);
    });
  }
}

class MikroOrmOnMysql<Em extends MikroOrmEntityManager> extends MysqlUnitOfWork<Em> {
  constructor(private readonly orm: MikroOrmInstance<Em>) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Em>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable(NAME, options);
    return restoringSession((kept) =>
      inTransaction(this.orm, options, async (em, context) => {
        const session = kept(
          isKysely(context)
            ? await guardKysely(context)
            : guardMysql2(await context.client.acquireConnection()),
        );
        const opened = { handle: em, session, endings: ENDINGS };
        return runGuardedOnMysql<Em, Result>(opened, work, () => em.flush());
      }),
    );
  }
}

/** Version 6 is built on Knex, version 7 on Kysely. */
type TransactionContext = KnexTransactionLike | KyselyLike;

function isKysely(context: TransactionContext): context is KyselyLike {
  return 'getExecutor' in context;
}

async function inTransaction<Em extends MikroOrmEntityManager, Result>(
  orm: MikroOrmInstance<Em>,
  { isolation }: TransactionOptions,
  work: (em: Em, context: TransactionContext) => Promise<Result>,
): Promise<Result> {
  let used: { readonly em: Em; readonly context: unknown } | undefined;
  try {
    // Of its own: an identity map that other requests share would show what was rolled back.
    return await orm.em.fork().transactional(
      (em) => {
        const context = em.getTransactionContext();
        if (context === undefined || context === null) throw noTransactions();
        used = { em, context };
        return work(em, context as TransactionContext);
      },
      isolation === undefined ? {} : { isolationLevel: isolation },
    );
  } finally {
    // Repositories that still have it would otherwise write outside of the transaction, without a word.
    if (used !== undefined) used.em.setTransactionContext(used.context);
  }
}

function noTransactions(): IdempotencyOptionsError {
  return new IdempotencyOptionsError(
    `${NAME}: MikroORM has opened no transaction: remove "disableTransactions" from its options.`,
  );
}

/**
 * Transactions of MikroORM, for transactional operations: the handler's writes and the record commit together. Handlers
 * get the `EntityManager` of their transaction. Within its async context, injected entity managers and repositories belong
 * to the transaction, too. Does not close `orm`.
 *
 * @param orm - a `MikroORM` 6 or 7 of `@mikro-orm/postgresql`, or of `@mikro-orm/mysql`, which serves MariaDB, too, on the
 * database of the records. Each request of a transactional operation holds one of its connections until its response.
 * @returns a `PostgresUnitOfWork` or a `MysqlUnitOfWork`, by the driver.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [MikroORM],
 *   useFactory: (orm: MikroORM) => ({ store: postgresStore({ url }), unitOfWork: mikroOrmUnitOfWork(orm) }),
 * });
 * ```
 */
export function mikroOrmUnitOfWork<Em extends MikroOrmEntityManager>(
  orm: MikroOrmInstance<Em>,
): UnitOfWork<Em> {
  const platforms = isMikroOrm(orm) ? namesOf(orm.em.getPlatform()) : [];
  if (platforms.includes('PostgreSqlPlatform')) return new MikroOrmOnPostgres(orm);
  // That of @mikro-orm/mariadb is on another driver.
  if (platforms[0] !== 'MariaDbPlatform' && platforms.includes('MySqlPlatform')) {
    return new MikroOrmOnMysql(orm);
  }
  throw new IdempotencyOptionsError(
    `${NAME}: pass a MikroORM 6 or 7 of @mikro-orm/postgresql or @mikro-orm/mysql.`,
  );
}

function isMikroOrm(orm: unknown): orm is MikroOrmInstance<MikroOrmEntityManager> {
  if (typeof orm !== 'object' || orm === null || !('em' in orm)) return false;
  const { em } = orm;
  return (
    typeof em === 'object' &&
    em !== null &&
    ['fork', 'transactional', 'getPlatform', 'setTransactionContext'].every(
      (name) => typeof (em as Record<string, unknown>)[name] === 'function',
    )
  );
}

/** The names of its class, and of those that it extends: an application may have extended the platform. */
function namesOf(value: object): string[] {
  const names: string[] = [];
  for (let one: unknown = value; typeof one === 'object' && one !== null;) {
    one = Object.getPrototypeOf(one);
    if (typeof one === 'object' && one !== null) names.push(one.constructor.name);
  }
  return names;
}

/** The part of an instance that is used. Structural, to compile without MikroORM. */
export interface MikroOrmInstance<Em extends MikroOrmEntityManager> {
  readonly em: Em;
}

/** The part of an entity manager that is used. */
export interface MikroOrmEntityManager {
  getPlatform(): object;
  fork(): this;
  flush(): Promise<void>;
  getTransactionContext(): unknown;
  setTransactionContext(context: unknown): void;
  transactional<Result>(
    work: (em: this) => Promise<Result> | Result,
    options?: MikroOrmTransactionOptions,
  ): Promise<Result>;
}

/** Options of a transaction of MikroORM. */
export interface MikroOrmTransactionOptions {
  readonly isolationLevel?: string;
}
