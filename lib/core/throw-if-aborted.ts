import { TransactionAbortedError } from './transaction-errors.js';
import { ASK_FOR_NONCE, askInside } from './transaction/sql-reply.js';
import { hasSqlState, type OpenTransaction } from './transaction/unit-of-work.js';

const IN_FAILED_TRANSACTION: ReadonlySet<string> = new Set(['25P02']);

/**
 * The last statement before COMMIT, for libraries that do not tell when PostgreSQL answers that with ROLLBACK:
 * it fails where that would happen, and where the reply to COMMIT would be another statement's.
 *
 * @throws {@link TransactionAbortedError} a statement of the transaction has failed.
 */
export async function throwIfAborted(
  transaction: Pick<OpenTransaction, 'query' | 'cut'>,
): Promise<void> {
  try {
    await askInside(transaction, ASK_FOR_NONCE);
  } catch (error) {
    throw hasSqlState(error, IN_FAILED_TRANSACTION)
      ? new TransactionAbortedError({ cause: error })
      : error;
  }
}
