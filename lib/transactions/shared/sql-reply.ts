import { asBuffer } from '../../core/util/as-buffer.js';
import { StoreReplyMismatchedError } from '../../core/errors/errors.js';
import { newNonce } from '../../core/util/nonce.js';
import type { SqlTransaction, TransactionValue } from './sql-transaction.js';

export const NONCE_QUERY = 'SELECT $1::text AS reply';

/** Ends its own connection: the only statement that is safe on one whose replies are out of order. */
export const TERMINATE = 'SELECT pg_terminate_backend(pg_backend_pid())';

/**
 * Returns the words after the nonce in a reply: one row with one column, because a reply describes each of its columns.
 * The column's name is ignored, as the application may rename it. The value may be bytes if the application's parser or
 * driver does not decode text. `undefined` if it is the reply to another statement.
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
 * Runs a statement of the library, with the nonce appended to `values`. Returns what {@link replyWords} returns. For
 * the reply of another statement, closes the connection and throws {@link StoreReplyMismatchedError}.
 */
export async function queryInTransaction(
  transaction: Pick<SqlTransaction, 'query' | 'cut'>,
  text: string,
  values: readonly TransactionValue[] = [],
): Promise<readonly string[]> {
  const nonce = newNonce();
  const words = replyWords(await transaction.query(text, [...values, nonce]), nonce);
  if (words !== undefined) return words;
  await end(transaction);
  throw new StoreReplyMismatchedError('PostgreSQL');
}

/** Closes the connection: its next user would receive the replies of this transaction. */
async function end(transaction: Pick<SqlTransaction, 'query' | 'cut'>): Promise<void> {
  if (transaction.cut !== undefined) {
    transaction.cut();
    return;
  }
  await transaction.query(TERMINATE, []).catch(() => undefined);
}
