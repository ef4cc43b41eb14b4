/** What is used of a database of Drizzle. Structural, so that it fits every schema. */
export interface DrizzleDatabase {
  // Each schema has a type of transaction of its own.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  transaction(work: (transaction: any) => Promise<any>, config?: object): Promise<any>;
}

/**
 * What handlers get by `@IdempotencyTransaction()`: what `db.transaction` calls back with. Once the transaction is
 * over, it refuses.
 *
 * @example
 * ```ts
 * type Db = NodePgDatabase<typeof schema>;
 *
 * refund(@IdempotencyTransaction() transaction: DrizzleTransaction<Db>) {
 *   return transaction.insert(refunds).values({ … }).returning();
 * }
 * ```
 */
export type DrizzleTransaction<Db extends DrizzleDatabase> = Parameters<
  Parameters<Db['transaction']>[0]
>[0];
