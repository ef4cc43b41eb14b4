import { isPostgresPool } from './connections.js';

/** The part of a pool that is used: any `Pool` of pg 8. Structural, so that compiling does not require pg. */
export interface PgPool {
  /** Distinguishes a pool from a client. */
  readonly totalCount: number;
  connect(callback: (error: Error | undefined, connection?: PgConnection) => void): void;
  /** Of any type: handlers get the same one for their transaction. */
  query: unknown;
}

/** A checked-out connection. */
export interface PgConnection {
  query(text: string, values?: unknown[]): Promise<PgResult>;
  /** Returns it to the pool, or closes it if `destroy` is `true`. */
  release(destroy?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  off(event: 'error' | 'end', listener: () => void): unknown;
}

/** What is read of a result of pg. */
export interface PgResult {
  readonly rows: readonly object[];
  /** The command tag, such as `COMMIT`. */
  readonly command: string;
}

/**
 * What handlers get by `@IdempotencyTransaction()`: `query`, in each form of the pool's, on the connection of their
 * transaction. It rejects once the transaction is over.
 *
 * @example
 * ```ts
 * refund(@IdempotencyTransaction() transaction: PgTransaction<Pool>) {
 *   return transaction.query<Refund>('INSERT INTO refunds … RETURNING *', [ … ]);
 * }
 * ```
 */
export type PgTransaction<Pool extends PgPool> = Pick<Pool, 'query'>;

export function isPgPool(pool: unknown): pool is PgPool {
  return isPostgresPool(pool);
}
