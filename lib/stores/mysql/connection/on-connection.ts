import { asError } from '../../../core/errors/errors.js';
import {
  NoMysqlConnectionError,
  type MysqlConnection,
  type MysqlConnections,
  type MysqlQuery,
  type MysqlValue,
} from '../../../transactions/shared/mysql-connections.js';
import { NoReplyError } from '../../shared/send-failure.js';
import { leavesMysqlConnectionUsable } from './error-classification.js';

/** What a statement has replied. */
export interface MysqlReply {
  readonly rows: readonly MysqlRow[];
  /** See LAST_INSERT_ID() in `sql/mysql/`; 0 if the statement set none. */
  readonly insertId: number;
}

export type MysqlRow = Readonly<Record<string, unknown>>;

/** Sends a statement, prepared unless `isText`. */
export type Send = (
  sql: string,
  values?: readonly MysqlValue[],
  isText?: boolean,
) => Promise<MysqlReply>;

/**
 * Sends statements over one connection, checked out for them alone, within `ms` milliseconds. Then it destroys a connection
 * with a pending reply, because the next statement would queue behind this one.
 * @throws {@link NoMysqlConnectionError} nothing was sent.
 * @throws {@link NoReplyError} no reply arrived in time.
 */
export function onConnection<Result>(
  pool: MysqlConnections,
  ms: number,
  use: (send: Send) => Promise<Result>,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    let current: MysqlConnection | undefined;
    let isOver = false;
    const finish = (settle: () => void, isUsable: boolean) => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      if (current !== undefined) giveBack(current, isUsable);
      settle();
    };
    const fail = (error: Error, isUsable = false) => {
      finish(() => reject(error), isUsable);
    };
    const giveUp = () => {
      const isSent = current !== undefined;
      fail(isSent ? new NoReplyError() : new NoMysqlConnectionError('no connection in time'));
    };
    // After a blocked event loop, timers fire before input is read: read received replies first.
    const timer = setTimeout(() => setImmediate(giveUp), ms);

    try {
      pool.getConnection((error, connection) => {
        if (error !== null && error !== undefined) {
          fail(new NoMysqlConnectionError('no connection', { cause: error }));
          return;
        }
        connection.on('error', ignore);
        if (isOver) {
          // Too late for these statements, but unused.
          giveBack(connection, true);
          return;
        }
        current = connection;
        use((sql, values, isText) => sendOn(connection, sql, values, isText)).then(
          (result) => {
            finish(() => resolve(result), true);
          },
          (thrown: unknown) => {
            fail(asError(thrown), leavesMysqlConnectionUsable(thrown));
          },
        );
      });
    } catch (error) {
      fail(new NoMysqlConnectionError('no connection', { cause: asError(error) }));
    }
  });
}

function giveBack(connection: MysqlConnection, isUsable: boolean): void {
  if (isUsable) {
    connection.removeListener('error', ignore);
    connection.release();
  } else {
    // The listener stays: what the socket still says must not end the process.
    connection.destroy();
  }
}

/** Whatever the application's pool says of rows, bytes and numbers. */
const AS_OBJECTS = {
  rowsAsArray: false,
  typeCast: true,
  nestTables: false,
  namedPlaceholders: false,
};

function sendOn(
  connection: MysqlConnection,
  sql: string,
  values: readonly MysqlValue[] = [],
  isText = false,
): Promise<MysqlReply> {
  return new Promise((resolve, reject) => {
    const onResult = (error: Error | null, result: unknown) => {
      if (error === null) resolve(replyOf(result));
      else reject(asError(error));
    };
    const query: MysqlQuery = { sql, values, ...AS_OBJECTS };
    if (isText) connection.query(query, onResult);
    else connection.execute(query, onResult);
  });
}

function replyOf(result: unknown): MysqlReply {
  if (Array.isArray(result)) return { rows: result as MysqlRow[], insertId: 0 };
  const { insertId } = result as { readonly insertId?: unknown };
  return { rows: [], insertId: Number(insertId ?? 0) };
}

function ignore(): void {
  // Statements report it.
}
