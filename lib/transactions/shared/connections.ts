/** What hands out connections, each to one user until its release. */
export interface PostgresConnections {
  connect(
    callback: (error: Error | undefined, connection: PostgresConnection | undefined) => void,
  ): void;
}

/**
 * What the store requires of a pool: any `Pool` of pg 8. Structural, so that compiling does not require pg. A single
 * `Client` is not enough: after a timeout, its late reply would arrive at the next command, and a transaction of the
 * application would include what the store writes.
 */
export interface PostgresPool extends PostgresConnections {
  /** Distinguishes a pool from a client. */
  readonly totalCount: number;
}

/**
 * The application's connections, for the store. Made by `fromPg`, `fromTypeOrm`, `fromKnex`, `fromDrizzle`, `fromKysely`
 * and `fromPrisma`, each in the entry of its unit of work.
 */
export interface PostgresExecutor extends PostgresConnections {
  /** The function that made it. */
  readonly name: string;
  /** What the library lets the store do with them. */
  readonly kind: ExecutorKind;
}

/**
 * - `'driver'`: connections of pg. Statements have names, and a connection without a reply in time is closed.
 * - `'held'`: connections that run statements one after the other, without names. One that owes a reply is not closed: it
 *   returns to its pool with the reply.
 * - `'statement'`: each statement runs on any connection. Whether it waits for one, or for its reply, is not known.
 */
export type ExecutorKind = 'driver' | 'held' | 'statement';

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

/** No connection opened, or became free: nothing was sent. */
export class NoConnectionError extends Error {
  override readonly name = 'NoConnectionError';
}

export function kindOf(connections: PostgresConnections): ExecutorKind {
  return isExecutor(connections) ? connections.kind : 'driver';
}

export function isExecutor(connections: unknown): connections is PostgresExecutor {
  return canConnect(connections) && 'kind' in connections && 'name' in connections;
}

export function isPostgresPool(client: unknown): client is PostgresPool {
  return canConnect(client) && 'totalCount' in client && typeof client.totalCount === 'number';
}

function canConnect(connections: unknown): connections is PostgresConnections {
  return (
    typeof connections === 'object' &&
    connections !== null &&
    'connect' in connections &&
    typeof connections.connect === 'function'
  );
}
