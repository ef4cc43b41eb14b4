import {
  hasSqlState,
  UnitOfWork,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
} from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { throwIfAborted } from '../shared/guarded-handle.js';

const LEVELS: Readonly<Record<IsolationLevel, PrismaIsolationLevel>> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
};

/** What Prisma makes of a conflict in a statement of a model's. */
const CONFLICT: ReadonlySet<string> = new Set(['P2034']);

class PrismaUnitOfWork<Transaction extends PrismaTransaction> extends UnitOfWork<Transaction> {
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
    work: (transaction: OpenTransaction<Transaction>) => Promise<Result>,
  ): Promise<Result> {
    const level = isolation && LEVELS[isolation];
    return this.client.$transaction(
      async (handle) => {
        const query: OpenTransaction['query'] = async (text, values) =>
          handle.$queryRawUnsafe<object[]>(text, ...values);
        const result = await work({ handle, query });
        await throwIfAborted({ query });
        return result;
      },
      // Prisma's own defaults are two seconds and five.
      { maxWait: timeoutMs, timeout: timeoutMs, ...(level && { isolationLevel: level }) },
    );
  }

  override isConflict(error: unknown): boolean {
    return super.isConflict(error) || hasSqlState(error, CONFLICT);
  }
}

/**
 * Transactions of Prisma: in the transactional mode the business writes and the record commit together. Handlers get
 * the `Prisma.TransactionClient` of their transaction. It closes nothing; the client stays the application's.
 *
 * @param client - a `PrismaClient`, generated from the application's schema, to the database that the records are in.
 * Each request on a transactional route holds one of its connections until it is answered.
 * @throws {@link IdempotencyOptionsError} when it is no such client.
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
  return new PrismaUnitOfWork(client);
}

/**
 * What is used of a client: any generated `PrismaClient`, also an extended one, will do. Structural, because the
 * application's is generated from its own schema.
 *
 * @typeParam Transaction - the client's own `Prisma.TransactionClient`.
 */
export interface TransactionalPrismaClient<Transaction extends PrismaTransaction> {
  $transaction<Result>(
    work: (transaction: Transaction) => Promise<Result>,
    options?: PrismaTransactionOptions,
  ): Promise<Result>;
}

export interface PrismaTransaction {
  $queryRawUnsafe<Rows>(text: string, ...values: unknown[]): PromiseLike<Rows>;
}

export interface PrismaTransactionOptions {
  /** Milliseconds that a connection is waited for. */
  readonly maxWait?: number;
  /** Milliseconds after which it is rolled back. */
  readonly timeout?: number;
  readonly isolationLevel?: PrismaIsolationLevel;
}

export type PrismaIsolationLevel = 'ReadCommitted' | 'RepeatableRead' | 'Serializable';

function isPrismaClient(client: unknown): client is TransactionalPrismaClient<PrismaTransaction> {
  return (
    typeof client === 'object' &&
    client !== null &&
    '$transaction' in client &&
    typeof client.$transaction === 'function' &&
    '$queryRawUnsafe' in client &&
    typeof client.$queryRawUnsafe === 'function'
  );
}
