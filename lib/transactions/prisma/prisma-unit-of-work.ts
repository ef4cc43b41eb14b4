import type {
  IsolationLevel,
  TransactionOptions,
  UnitOfWork,
} from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { throwIfAborted } from '../shared/guarded-handle.js';
import {
  MysqlGuard,
  runGuardedOnMysql,
  textOf,
  throwIfSerializable,
  type GuardedSession,
} from '../shared/mysql-guard.js';
import type { MysqlTransaction } from '../shared/mysql-transaction.js';
import { MysqlUnitOfWork } from '../shared/mysql-unit-of-work.js';
import { PostgresUnitOfWork } from '../shared/postgres-unit-of-work.js';
import { hasSqlState } from '../shared/sql-state.js';
import type { SqlTransaction, TransactionValue } from '../shared/sql-transaction.js';

const LEVELS: Readonly<Record<IsolationLevel, PrismaIsolationLevel>> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
};

/** Prisma's code for a conflict in a model's query. */
const CONFLICT: ReadonlySet<string> = new Set(['P2034']);

class PrismaOnPostgres<
  Transaction extends PrismaTransaction,
> extends PostgresUnitOfWork<Transaction> {
  constructor(private readonly client: TransactionalPrismaClient<Transaction>) {
    super();
  }

  run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    return this.client.$transaction(async (handle) => {
      const query = queryOf(handle);
      const result = await work({ handle, query });
      await throwIfAborted({ query });
      return result;
    }, optionsOf(options));
  }

  override isConflict(error: unknown): boolean {
    return super.isConflict(error) || hasSqlState(error, CONFLICT);
  }
}

class PrismaOnMysql<Transaction extends PrismaTransaction> extends MysqlUnitOfWork<Transaction> {
  constructor(private readonly client: ExtensiblePrismaClient<Transaction>) {
    super();
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    throwIfSerializable(NAME, options);
    const guard = new MysqlGuard();
    const $allOperations: OnOperation = async ({ args, query }) => {
      // The text of a raw query; of that of a model nothing.
      const refusal = guard.refusal(textOf(Array.isArray(args) ? args[0] : args));
      if (refusal !== undefined) throw refusal;
      try {
        return await query(args);
      } catch (error) {
        guard.note(error, this.isConflict(error));
        throw error;
      }
    };
    // Prisma hands out no connection.
    const client = this.client.$extends({ query: { $allOperations } });
    return client.$transaction(async (handle) => {
      const execute: GuardedSession['execute'] = (sql, values) =>
        handle.$queryRawUnsafe<object[]>(sql, ...values) as Promise<object[]>;
      const session = { guard, execute, restore: () => undefined };
      return runGuardedOnMysql({ handle, session }, work);
    }, optionsOf(options));
  }

  override isConflict(error: unknown): boolean {
    return super.isConflict(error) || hasSqlState(error, CONFLICT);
  }
}

const NAME = 'prismaUnitOfWork';

/**
 * Transactions of Prisma, for transactional operations: the handler's writes and the record commit together. Handlers
 * get the `Prisma.TransactionClient` of their transaction. Does not disconnect the client.
 *
 * @param client - a `PrismaClient`, generated from the application's schema, on the database of the records. Each
 * request of a transactional operation holds one of its connections until its response.
 * @returns a `PostgresUnitOfWork` or a `MysqlUnitOfWork`, by the provider of the schema.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [PrismaService],
 *   useFactory: (prisma: PrismaService) => ({
 *     store: postgresStore({ url }),
 *     unitOfWork: prismaUnitOfWork(prisma),
 *   }),
 * });
 * ```
 */
export function prismaUnitOfWork<Transaction extends PrismaTransaction>(
  client: TransactionalPrismaClient<Transaction>,
): UnitOfWork<Transaction> {
  if (!isPrismaClient(client)) {
    throw new IdempotencyOptionsError(
      `${NAME}: the client must be an instance of a generated PrismaClient.`,
    );
  }
  const provider: unknown = (client as { readonly _activeProvider?: unknown })._activeProvider;
  if (provider === 'mysql') {
    return new PrismaOnMysql(client as unknown as ExtensiblePrismaClient<Transaction>);
  }
  if (OTHERS.has(provider)) {
    throw new IdempotencyOptionsError(
      `${NAME}: the provider of the client is "${String(provider)}": only "postgresql" and "mysql" have transactions with records.`,
    );
  }
  return new PrismaOnPostgres(client);
}

/** Providers of Prisma that no store has. */
const OTHERS: ReadonlySet<unknown> = new Set(['sqlite', 'sqlserver', 'mongodb']);

function optionsOf({ isolation, timeoutMs }: TransactionOptions): PrismaTransactionOptions {
  const level = isolation && LEVELS[isolation];
  // The defaults of Prisma are two and five seconds.
  return { maxWait: timeoutMs, timeout: timeoutMs, ...(level && { isolationLevel: level }) };
}

type OnOperation = (operation: {
  readonly args: unknown;
  readonly query: (args: unknown) => Promise<unknown>;
}) => Promise<unknown>;

/** What each client has, and the declarations of its transactions do not. */
interface ExtensiblePrismaClient<
  Transaction extends PrismaTransaction,
> extends TransactionalPrismaClient<Transaction> {
  $extends(extension: {
    readonly query: { readonly $allOperations: OnOperation };
  }): TransactionalPrismaClient<Transaction>;
}

/**
 * The part of a client that is used: any generated `PrismaClient`, also an extended one. Structural, because the
 * application generates it from its own schema.
 *
 * @typeParam Transaction - the `Prisma.TransactionClient` of the client.
 */
export interface TransactionalPrismaClient<Transaction extends PrismaTransaction> {
  $transaction<Result>(
    work: (transaction: Transaction) => Promise<Result>,
    options?: PrismaTransactionOptions,
  ): Promise<Result>;
}

/** The client of an interactive transaction, with the methods that the unit of work calls. */
export interface PrismaTransaction {
  $queryRawUnsafe<Rows>(text: string, ...values: unknown[]): PromiseLike<Rows>;
}

/** Options of an interactive transaction of Prisma. */
export interface PrismaTransactionOptions {
  /** Milliseconds to wait for a connection. */
  readonly maxWait?: number;
  /** Milliseconds until the transaction is rolled back. */
  readonly timeout?: number;
  readonly isolationLevel?: PrismaIsolationLevel;
}

/** @param client - a transaction, or the client itself. */
export function queryOf(client: PrismaTransaction): SqlTransaction['query'] {
  return async (text, values) => client.$queryRawUnsafe<object[]>(text, ...values.map(binding));
}

/** Prisma sends values as JSON, which has no infinity and makes it NULL. As text, a number is the server's to read. */
function binding(value: TransactionValue): TransactionValue {
  return typeof value === 'number' ? String(value) : value;
}

/** The names of isolation levels in Prisma. */
export type PrismaIsolationLevel = 'ReadCommitted' | 'RepeatableRead' | 'Serializable';

export function isPrismaClient(
  client: unknown,
): client is TransactionalPrismaClient<PrismaTransaction> {
  return (
    typeof client === 'object' &&
    client !== null &&
    '$transaction' in client &&
    typeof client.$transaction === 'function' &&
    '$queryRawUnsafe' in client &&
    typeof client.$queryRawUnsafe === 'function'
  );
}
