import { types } from 'node:util';

/** A value for a `?` in a statement. */
export type MysqlValue = string | number | Uint8Array | null;

/** What a connection of mysql2 is asked: with these options, whatever those of its pool are. */
export interface MysqlQuery {
  readonly sql: string;
  readonly values?: readonly MysqlValue[];
  readonly rowsAsArray?: boolean;
  readonly typeCast?: boolean;
  readonly nestTables?: boolean;
  readonly namedPlaceholders?: boolean;
}

type OnResult = (error: Error | null, result: unknown, fields?: unknown) => void;

/** A connection of mysql2 with callbacks. */
export interface MysqlConnection {
  /** In the binary protocol, with a prepared statement. */
  execute(query: MysqlQuery, callback: OnResult): unknown;
  /** In the text protocol, which has all statements. */
  query(query: MysqlQuery, callback: OnResult): unknown;
  release(): void;
  destroy(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** What hands out connections, each to one user until its release. */
export interface MysqlConnections {
  getConnection(
    use: (error: Error | null | undefined, connection: MysqlConnection) => void,
  ): unknown;
}

/** A pool of mysql2, with callbacks or, from `mysql2/promise`, around one. Structural: compiling does not require mysql2. */
export type MysqlPool = MysqlConnections | { readonly pool: MysqlConnections };

/** The application's connections, for the store. Made by `fromMysql2`. */
export interface MysqlExecutor extends MysqlConnections {
  /** The function that made it. */
  readonly name: string;
}

/** No connection opened, or became free: nothing was sent. */
export class NoMysqlConnectionError extends Error {
  override readonly name = 'NoMysqlConnectionError';
}

/** @returns the pool with callbacks; `undefined` if it is none, such as a single connection. */
export function callbackPoolOf(pool: unknown): MysqlConnections | undefined {
  if (typeof pool !== 'object' || pool === null) return undefined;
  const inner: unknown = 'pool' in pool ? pool.pool : pool;
  return isMysqlConnections(inner) ? inner : undefined;
}

export function isMysqlExecutor(value: unknown): value is MysqlExecutor {
  return isMysqlConnections(value) && 'name' in value && typeof value.name === 'string';
}

function isMysqlConnections(value: unknown): value is MysqlConnections {
  return (
    typeof value === 'object' &&
    value !== null &&
    'getConnection' in value &&
    typeof value.getConnection === 'function'
  );
}

/** An error that the server sent. */
export interface MysqlServerError extends Error {
  readonly errno: number;
  readonly sqlState: string;
}

export function isMysqlServerError(error: unknown): error is MysqlServerError {
  return (
    types.isNativeError(error) &&
    'errno' in error &&
    typeof error.errno === 'number' &&
    'sqlState' in error &&
    typeof error.sqlState === 'string'
  );
}
