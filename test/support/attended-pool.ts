import type { Pool } from 'pg';
import type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../../lib/stores/postgres/postgres-client.js';

/** A statement on its way. */
export interface SentStatement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * The pool of an application in which something happens between the reply to a statement and whoever waits for it.
 *
 * @param attend - is given each reply, and returns what is handed on.
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
