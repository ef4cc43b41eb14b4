import type { IsolationLevel, TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { throwIfAborted } from '../shared/guarded-handle.js';
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

class PrismaUnitOfWork<
  Transaction extends PrismaTransaction,
> extends PostgresUnitOfWork<Transaction> {
  constructor(private readonly client: TransactionalPrismaClient<Transaction>) {
    super();
    if (!isPrismaClient(client)) {
      throw new IdempotencyOptionsError(
        'prismaUnitOfWork: the client must be an instance of a generated PrismaClient.',
      );
    }
  }

  run<Result>(
    { isolation, timeoutMs }: TransactionOptions,
    work: (transaction: SqlTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    const level = isolation && LEVELS[isolation];
    return this.client.$transaction(
      async (handle) => {
        const query = queryOf(handle);
        const result = await work({ handle, query });
        await throwIfAborted({ query });
        return result;
      },
      // The defaults of Prisma are two and five seconds.
      { maxWait: timeoutMs, timeout: timeoutMs, ...(level && { isolationLevel: level }) },
    );
  }

  override isConflict(error: unknown): boolean {
    return super.isConflict(error) || hasSqlState(error, CONFLICT);
  }
}

/**
 * Transactions of Prisma, for transactional operations: the handler's writes and the record commit together. Handlers
 * get the `Prisma.TransactionClient` of their transaction. Does not disconnect the client.
 *
 * @param client - a `PrismaClient`, generated from the application's schema, on the database of the records. Each
 * request of a transactional operation holds one of its connections until its response.
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
): PostgresUnitOfWork<Transaction> {
  return new PrismaUnitOfWork(client);
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
