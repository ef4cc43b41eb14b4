/**
 * What the store needs of a pool: a `Pool` of pg 8 will do. Structural, so that nobody needs pg to compile.
 *
 * A single `Client` is none: a command that was given up could not be told from the next one, and a
 * transaction of the application on it would swallow what the store writes.
 */
export interface PostgresPool {
  /** Tells a pool from a client. */
  readonly totalCount: number;
  connect(
    callback: (error: Error | undefined, connection: PostgresConnection | undefined) => void,
  ): void;
}

/** A connection on loan. */
export interface PostgresConnection {
  /** By a callback, which costs pg a good deal less than its promise. */
  query(
    query: PostgresQuery,
    values: unknown[],
    callback: (error: Error | null | undefined, result: PostgresResult) => void,
  ): void;
  /** Gives it back; with `true` it is closed instead. */
  release(destroy?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
}

export interface PostgresQuery {
  readonly text: string;
  /** Names a prepared statement. */
  readonly name?: string;
  /** How columns are read, whatever the application has set for its own: text, or bytes where the pool is binary. */
  readonly types?: { getTypeParser(): (sent: unknown) => unknown };
}

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
