import { closingHandle } from './closing-handle.js';
import { throwIfAborted } from './throw-if-aborted.js';
import type { OpenTransaction } from './transaction/unit-of-work.js';

/**
 * Calls `work` inside of a transaction of a library that neither closes its handle nor tells of a COMMIT that
 * PostgreSQL answers with ROLLBACK. What comes over the handle once `work` is done, as COMMIT is under way say, is refused.
 *
 * @returns what is to be returned after COMMIT.
 * @throws {@link TransactionAbortedError} COMMIT would not commit.
 */
export async function workInside<Handle extends object, Result>(
  transaction: OpenTransaction<Handle>,
  work: (transaction: OpenTransaction<Handle>) => Promise<Result>,
): Promise<Result> {
  let isOver = false;
  const handle = closingHandle(transaction.handle, () => isOver);
  let result: Result;
  try {
    result = await work({ ...transaction, handle });
  } finally {
    isOver = true;
  }
  await throwIfAborted(transaction);
  return result;
}
