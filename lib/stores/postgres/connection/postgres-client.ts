/**
 * What the store requires of a pool: any `Pool` of pg 8. Structural, so that compiling does not require pg. A single
 * `Client` is not enough: after a timeout, its late reply would arrive at the next command, and a transaction of the
 * application would include what the store writes.
 */
export interface PostgresPool {
  /** Distinguishes a pool from a client. */
  readonly totalCount: number;
  connect(
    callback: (error: Error | undefined, connection: PostgresConnection | undefined) => void,
  ): void;
}

/** A checked-out connection. */
export interface PostgresConnection {
  /** With a callback, which is much cheaper in pg than its promise. */
  query(
    query: PostgresQuery,
    values: unknown[],
    callback: (error: Error | null | undefined, result: PostgresResult) => void,
  ): void;
  /** Returns it to the pool, or closes it if `destroy` is `true`. */
  release(destroy?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
}

/** A statement as the store passes it to pg. */
export interface PostgresQuery {
  readonly text: string;
  readonly name?: string;
  /** How columns are parsed, regardless of the application's settings: as text, or as bytes if the pool is binary. */
  readonly types?: { getTypeParser(): (sent: unknown) => unknown };
}

/** What the store reads of a result of pg. */
export interface PostgresResult {
  readonly rows: readonly object[];
}

export function isPostgresPool(client: unknown): client is PostgresPool {
  return (
    typeof client === 'object' &&
    client !== null &&
    'connect' in client &&
    typeof client.connect === 'function' &&
    'totalCount' in client &&
    typeof client.totalCount === 'number'
  );
}
