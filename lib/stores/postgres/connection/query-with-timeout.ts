import { asError, StoreReplyMismatchedError } from '../../../core/errors/errors.js';
import { newNonce } from '../../../core/util/nonce.js';
import {
  kindOf,
  NoConnectionError,
  type PostgresConnection,
  type PostgresConnections,
  type PostgresQuery,
} from '../../../transactions/shared/connections.js';
import { NONCE_QUERY, replyWords } from '../../../transactions/shared/sql-reply.js';
import { isServerError } from '../../../transactions/shared/sql-state.js';
import { NoReplyError } from '../../shared/send-failure.js';
import { leavesConnectionUsable, UnprovenError } from './error-classification.js';

type Statement = Omit<PostgresQuery, 'types'>;

/** @param words - `undefined` if the reply belonged to another statement. */
type OnReply = (error: Error | undefined, words: readonly string[] | undefined) => void;

/** Leaves every column as the server sent it, regardless of the application's type parsers. */
const AS_SENT = { getTypeParser: () => (sent: unknown) => sent };

/**
 * Sends one statement over a connection checked out for it alone, and waits `ms` milliseconds for the reply. Then it
 * destroys a connection with a pending reply, because the next statement would queue behind this one. Each reply must
 * carry the nonce of its statement; its position proves nothing. An error carries none: it counts after the connection
 * has replied to a query for a nonce. A connection out of step is destroyed.
 * @param values - without the nonce, which comes last.
 * @returns the words of the reply, without the nonce.
 * @throws {@link NoConnectionError} nothing was sent.
 * @throws {@link NoReplyError} no reply arrived in time.
 * @throws {@link StoreReplyMismatchedError} the reply belonged to another statement.
 * @throws {@link UnprovenError} an error arrived that may belong to another statement.
 */
export function queryWithTimeout(
  pool: PostgresConnections,
  statement: Statement,
  values: readonly unknown[],
  ms: number,
): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    let current: CheckedOutConnection | undefined;
    let isOver = false;
    const finish = (settle: () => void, isUsable: boolean) => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      current?.release(isUsable);
      settle();
    };
    const fail = (error: Error, isUsable = false) => {
      finish(() => reject(error), isUsable);
    };
    const giveUp = () => {
      const isSent = current !== undefined;
      fail(isSent ? new NoReplyError() : new NoConnectionError('no connection in time'));
    };
    // After a blocked event loop, timers fire before input is read: read received replies first.
    const timer = setTimeout(() => setImmediate(giveUp), ms);

    const prove = (connection: PostgresConnection, error: Error) => {
      sendQuery(connection, { text: NONCE_QUERY }, [], (cause, words) => {
        if (cause !== undefined) fail(new UnprovenError(error));
        else if (words === undefined) fail(new StoreReplyMismatchedError('PostgreSQL'));
        else fail(error, leavesConnectionUsable(error));
      });
    };

    checkOutFor(
      pool,
      (checkedOut) => {
        if (isOver) {
          // Too late for this statement, but unused.
          checkedOut.release(true);
          return;
        }
        current = checkedOut;
        sendQuery(checkedOut.connection, statement, values, (error, words) => {
          if (isOver) return;
          if (error !== undefined && isServerError(error)) {
            // Another connection would prove nothing.
            if (kindOf(pool) === 'statement') fail(error, leavesConnectionUsable(error));
            else prove(checkedOut.connection, error);
          } else if (error !== undefined) fail(error);
          else if (words === undefined) fail(new StoreReplyMismatchedError('PostgreSQL'));
          else finish(() => resolve(words), true);
        });
      },
      fail,
    );
  });
}

function sendQuery(
  connection: PostgresConnection,
  statement: Statement,
  values: readonly unknown[],
  onReply: OnReply,
): void {
  const nonce = newNonce();
  try {
    // A new object each time: pg and its wrappers write to it.
    const query = { ...statement, types: AS_SENT };
    connection.query(query, [...values, nonce], (error, result) => {
      if (error === null || error === undefined) onReply(undefined, replyWords(result.rows, nonce));
      else onReply(asError(error), undefined);
    });
  } catch (error) {
    // A wrapper threw: what it has sent is unknown.
    onReply(asError(error), undefined);
  }
}

interface CheckedOutConnection {
  readonly connection: PostgresConnection;
  /** @param isUsable - `false` closes it. */
  readonly release: (isUsable: boolean) => void;
}

/** Handles errors of the connection meanwhile, which would end the process. @throws {@link NoConnectionError} */
export function checkOut(pool: PostgresConnections): Promise<CheckedOutConnection> {
  return new Promise((resolve, reject) => {
    checkOutFor(pool, resolve, reject);
  });
}

function checkOutFor(
  pool: PostgresConnections,
  use: (checkedOut: CheckedOutConnection) => void,
  fail: (error: NoConnectionError) => void,
): void {
  // Without a promise: a connection may fail before its continuation runs.
  pool.connect((error, connection) => {
    if (connection === undefined) {
      fail(new NoConnectionError('no connection', { cause: asError(error) }));
      return;
    }
    connection.on('error', ignore);
    const release = (isUsable: boolean) => {
      connection.off('error', ignore);
      connection.release(!isUsable);
    };
    use({ connection, release });
  });
}

function ignore(): void {
  // Statements report it.
}
