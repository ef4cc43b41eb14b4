import { asBuffer } from '../util/as-buffer.js';
import { StoreReplyMismatchedError } from '../util/errors.js';
import { newNonce } from '../util/nonce.js';
import type { OpenTransaction, TransactionValue } from './unit-of-work.js';

/** A statement that asks for nothing but its nonce. */
export const ASK_FOR_NONCE = 'SELECT $1::text AS reply';

/**
 * The reply to a statement whose last value was its nonce: one row with one column, whose first word is that nonce. One
 * column, because every reply describes all of them anew. It goes by whatever name the application has given it, and comes
 * as bytes where its parser or driver leaves them as they are: they are those of the text.
 *
 * @returns the other words; `undefined` where it is the reply to another statement.
 */
export function replyWords(rows: readonly object[], nonce: string): readonly string[] | undefined {
  const columns: unknown[] = rows.length === 1 ? Object.values(rows[0] ?? {}) : [];
  const [reply] = columns;
  const text = reply instanceof Uint8Array ? asBuffer(reply).toString() : reply;
  if (columns.length !== 1 || typeof text !== 'string') return undefined;
  const [first, ...words] = text.split(' ');
  return first === nonce ? words : undefined;
}

/**
 * Runs a statement of the library's own in a transaction.
 *
 * @param values - without the nonce, which comes last.
 * @returns what {@link replyWords} returns.
 * @throws {@link StoreReplyMismatchedError} the reply was another statement's: the connection has been ended.
 */
export async function askInside(
  transaction: Pick<OpenTransaction, 'query' | 'cut'>,
  text: string,
  values: readonly TransactionValue[] = [],
): Promise<readonly string[]> {
  const nonce = newNonce();
  const words = replyWords(await transaction.query(text, [...values, nonce]), nonce);
  if (words !== undefined) return words;
  await end(transaction);
  throw new StoreReplyMismatchedError('PostgreSQL');
}

/** Whoever borrows the connection next would be given the replies of this transaction. */
async function end(transaction: Pick<OpenTransaction, 'query' | 'cut'>): Promise<void> {
  if (transaction.cut !== undefined) {
    transaction.cut();
    return;
  }
  // Its own end is the one thing that can be asked for over a connection that is out of step.
  const ended = transaction.query('SELECT pg_terminate_backend(pg_backend_pid())', []);
  await ended.catch(() => undefined);
}
