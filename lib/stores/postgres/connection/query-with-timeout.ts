import { ASK_FOR_NONCE, replyWords } from '../../../core/transaction/sql-reply.js';
import { asError, StoreReplyMismatchedError } from '../../../core/util/errors.js';
import { newNonce } from '../../../core/util/nonce.js';
import {
  isServerError,
  leavesConnectionUsable,
  NoConnectionError,
  NoReplyError,
  UnprovenError,
} from './error-classification.js';
import type { PostgresConnection, PostgresPool, PostgresQuery } from './postgres-client.js';

type Statement = Omit<PostgresQuery, 'types'>;

/** @param words - `undefined` where the reply was another statement's. */
type OnReply = (error: Error | undefined, words: readonly string[] | undefined) => void;

/** Every column comes as the server sent it, whatever the application does with its own. */
const AS_SENT = { getTypeParser: () => (sent: unknown) => sent };

/**
 * Sends one statement over a connection that is borrowed for it alone, and waits `ms` milliseconds for the
 * reply. A connection that owes a reply by then is destroyed: the next statement would wait behind this one.
 *
 * No reply is believed because of its place. It carries the nonce of its statement. An error cannot: it counts once the
 * connection has answered a question that asks for nothing but a nonce. A connection that is out of step is destroyed.
 *
 * @param values - without the nonce, which comes last.
 * @returns the words of the reply, without the nonce.
 * @throws {@link NoConnectionError} nothing was sent.
 * @throws {@link NoReplyError} there was no reply in time.
 * @throws {@link StoreReplyMismatchedError} the reply was another statement's.
 * @throws {@link UnprovenError} there was an error, and nobody knows which statement's.
 */
export function queryWithTimeout(
  pool: PostgresPool,
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
    // After a blocked event loop timers come before input: a reply that is already here is read first.
    const timer = setTimeout(() => setImmediate(giveUp), ms);

    const prove = (connection: PostgresConnection, error: Error) => {
      ask(connection, { text: ASK_FOR_NONCE }, [], (cause, words) => {
        if (cause !== undefined) fail(new UnprovenError(error));
        else if (words === undefined) fail(new StoreReplyMismatchedError('PostgreSQL'));
        else fail(error, leavesConnectionUsable(error));
      });
    };

    checkOutFor(
      pool,
      (checkedOut) => {
        if (isOver) {
          // Too late for this statement, and as good as new for the next.
          checkedOut.release(true);
          return;
        }
        current = checkedOut;
        ask(checkedOut.connection, statement, values, (error, words) => {
          if (isOver) return;
          if (error !== undefined && isServerError(error)) prove(checkedOut.connection, error);
          else if (error !== undefined) fail(error);
          else if (words === undefined) fail(new StoreReplyMismatchedError('PostgreSQL'));
          else finish(() => resolve(words), true);
        });
      },
      fail,
    );
  });
}

function ask(
  connection: PostgresConnection,
  statement: Statement,
  values: readonly unknown[],
  onReply: OnReply,
): void {
  const nonce = newNonce();
  try {
    // An object of its own each time: pg and whoever has put something around it write on it.
    const query = { ...statement, types: AS_SENT };
    connection.query(query, [...values, nonce], (error, result) => {
      if (error === null || error === undefined) onReply(undefined, replyWords(result.rows, nonce));
      else onReply(asError(error), undefined);
    });
  } catch (error) {
    // Whoever has put something around it: nobody knows what it has sent.
    onReply(asError(error), undefined);
  }
}

/** A connection on loan from its pool. */
interface CheckedOutConnection {
  readonly connection: PostgresConnection;
  /** @param isUsable - false closes it instead. */
  readonly release: (isUsable: boolean) => void;
}

/**
 * Borrows a connection. While it is on loan nobody else hears its errors, which would end the process; statements
 * fail with them, too.
 *
 * @throws {@link NoConnectionError} there is none.
 */
export function checkOut(pool: PostgresPool): Promise<CheckedOutConnection> {
  return new Promise((resolve, reject) => {
    checkOutFor(pool, resolve, reject);
  });
}

/** As {@link checkOut}, for who is told at once, without the promise in between. */
function checkOutFor(
  pool: PostgresPool,
  use: (checkedOut: CheckedOutConnection) => void,
  fail: (error: NoConnectionError) => void,
): void {
  // Not by a promise: a connection may break before whoever awaits it has been told.
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
  // See above.
}
