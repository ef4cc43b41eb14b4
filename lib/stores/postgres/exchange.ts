import { asError } from '../../core/errors.js';
import { borrowFor, type Loan } from './borrow.js';
import { leavesConnectionUsable, NoConnectionError, NoReplyError } from './error-classification.js';
import type { PostgresPool, PostgresQuery, PostgresResult } from './postgres-client.js';

/**
 * Sends one statement over a connection that is borrowed for it alone, and waits `ms` milliseconds for the
 * reply. A connection that owes a reply by then is destroyed: the next statement would wait behind this one.
 *
 * @throws {@link NoConnectionError} nothing was sent.
 * @throws {@link NoReplyError} there was no reply in time.
 */
export function exchange(
  pool: PostgresPool,
  query: PostgresQuery,
  values: unknown[],
  ms: number,
): Promise<PostgresResult> {
  return new Promise((resolve, reject) => {
    let borrowed: Loan | undefined;
    let isOver = false;
    const finish = (settle: () => void, isUsable: boolean) => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      borrowed?.giveBack(isUsable);
      settle();
    };
    const giveUp = () => {
      const isSent = borrowed !== undefined;
      const error = isSent ? new NoReplyError() : new NoConnectionError('no connection in time');
      finish(() => reject(error), false);
    };
    // After a blocked event loop timers come before input: a reply that is already here is read first.
    const timer = setTimeout(() => setImmediate(giveUp), ms);

    borrowFor(
      pool,
      (loan) => {
        if (isOver) {
          // Too late for this statement, and as good as new for the next.
          loan.giveBack(true);
          return;
        }
        borrowed = loan;
        try {
          loan.connection.query(query, values, (error, result) => {
            if (error === null || error === undefined) finish(() => resolve(result), true);
            else finish(() => reject(asError(error)), leavesConnectionUsable(error));
          });
        } catch (error) {
          // Whoever has put something around it: nobody knows what it has sent.
          finish(() => reject(asError(error)), false);
        }
      },
      (error) => {
        finish(() => reject(error), false);
      },
    );
  });
}
