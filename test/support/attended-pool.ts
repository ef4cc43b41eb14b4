import type { Pool } from 'pg';
import type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from './internals/stores/postgres/connection.js';

/** A pending statement. */
export interface SentStatement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * An application's pool with a hook between the reply to a statement and its caller.
 *
 * @param attend - receives each reply, and returns what the caller gets.
 */
export function attendedPool(
  pool: Pool,
  attend: (sent: SentStatement, result: PostgresResult) => PostgresResult | Promise<PostgresResult>,
): PostgresPool {
  const attended = (connection: PostgresConnection): PostgresConnection => ({
    query: (query: PostgresQuery, values, heard) => {
      connection.query(query, values, (error, result) => {
        if (error !== null && error !== undefined) heard(error, result);
        else
          void Promise.resolve(attend({ text: query.text, values }, result)).then((handed) => {
            heard(null, handed);
          });
      });
    },
    release: (destroy) => connection.release(destroy),
    on: (event, listener) => connection.on(event, listener),
    off: (event, listener) => connection.off(event, listener),
  });
  const connect = pool.connect.bind(pool) as unknown as PostgresPool['connect'];
  return {
    totalCount: pool.totalCount,
    connect: (callback) => {
      connect((error, connection) => {
        callback(error, connection && attended(connection));
      });
    },
  };
}
