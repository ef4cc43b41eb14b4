import { IdempotencyOptionsError } from '../../core/errors.js';
import { TransactionAbortedError } from '../../core/transaction-errors.js';
import {
  type IsolationLevel,
  type OpenTransaction,
  type TransactionOptions,
  UnitOfWork,
} from '../../core/unit-of-work.js';
import { hasErrorCode } from './error-codes.js';
import {
  isPrismaClient,
  type PrismaIsolationLevel,
  type PrismaTransaction,
  type TransactionalPrismaClient,
} from './prisma-client.js';

const LEVELS: Readonly<Record<IsolationLevel, PrismaIsolationLevel>> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
};

const CONFLICTS: ReadonlySet<string> = new Set(['40001', '40P01', 'P2034']);
const IN_FAILED_TRANSACTION: ReadonlySet<string> = new Set(['25P02']);

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
        const result = await work({
          handle,
          query: async (text, values) => handle.$queryRawUnsafe<object[]>(text, ...values),
        });
        await throwIfAborted(handle);
        return result;
      },
      // Prisma's own defaults are two seconds and five.
      { maxWait: timeoutMs, timeout: timeoutMs, ...(level && { isolationLevel: level }) },
    );
  }

  override isConflict(error: unknown): boolean {
    return hasErrorCode(error, CONFLICTS);
  }
}

/** After a failed statement PostgreSQL rolls back at COMMIT and calls that a success; this statement it refuses. */
async function throwIfAborted(transaction: PrismaTransaction): Promise<void> {
  try {
    await transaction.$queryRawUnsafe('SELECT 1');
  } catch (error) {
    throw hasErrorCode(error, IN_FAILED_TRANSACTION)
      ? new TransactionAbortedError({ cause: error })
      : error;
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
