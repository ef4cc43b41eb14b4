import type { Pool } from 'pg';
import type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../internals/postgres.js';

/** A pending statement. */
export interface SentStatement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * An application's pool with a hook between the reply to a statement and its caller.
 *
 * @param watch - receives each reply, and returns what the caller gets.
 */
export function watchedPool(
  pool: Pool,
  watch: (sent: SentStatement, result: PostgresResult) => PostgresResult | Promise<PostgresResult>,
): PostgresPool {
  const watched = (connection: PostgresConnection): PostgresConnection => ({
    query: (query: PostgresQuery, values, received) => {
      connection.query(query, values, (error, result) => {
        if (error !== null && error !== undefined) received(error, result);
        else
          void Promise.resolve(watch({ text: query.text, values }, result)).then((passedOn) => {
            received(null, passedOn);
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
        callback(error, connection && watched(connection));
      });
    },
  };
}
