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
