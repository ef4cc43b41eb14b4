/** What is used of a pool: a `Pool` of pg 8 will do. Structural, so that nobody needs pg to compile. */
export interface PgPool {
  /** Tells a pool from a client. */
  readonly totalCount: number;
  connect(callback: (error: Error | undefined, connection?: PgConnection) => void): void;
  /** Of any shape: handlers are given the same one for their transaction. */
  query: unknown;
}

/** A connection on loan. */
export interface PgConnection {
  query(text: string, values?: unknown[]): Promise<PgResult>;
  /** Gives it back; with `true` it is closed instead. */
  release(destroy?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  off(event: 'error' | 'end', listener: () => void): unknown;
}

export interface PgResult {
  readonly rows: readonly object[];
  /** What PostgreSQL says it did: `COMMIT`, say. */
  readonly command: string;
}

/**
 * What handlers get by `@IdempotencyTransaction()`: `query`, in every form that the pool knows it, for the
 * connection of their transaction. Once that is over, it refuses.
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
  return (
    typeof pool === 'object' &&
    pool !== null &&
    'connect' in pool &&
    typeof pool.connect === 'function' &&
    'totalCount' in pool &&
    typeof pool.totalCount === 'number'
  );
}
