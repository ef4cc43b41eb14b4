import { ASK_FOR_NONCE, askInside } from '../../core/transaction/sql-reply.js';
import { hasSqlState, type OpenTransaction } from '../../core/transaction/unit-of-work.js';

/**
 * Puts around the handle of a library's transaction one that refuses as soon as `isOver` says so: the library's
 * own may go on to write, through a connection that another request has by then.
 */
function guardHandle<Handle extends object>(handle: Handle, isOver: () => boolean): Handle {
  const throwIfOver = () => {
    if (isOver()) throw new TransactionOverError();
  };
  return new Proxy(handle, {
    get(_, name) {
      // Whoever returns the handle from an async function is asked for `then`.
      if (name !== 'then') throwIfOver();
      const value: unknown = Reflect.get(handle, name, handle);
      // Private fields are the handle's own: the methods have to be called on it.
      return typeof value === 'function' ? (value.bind(handle) as unknown) : value;
    },
    apply(callable, self, values: unknown[]) {
      throwIfOver();
      return Reflect.apply(callable as (...values: unknown[]) => unknown, self, values);
    },
  });
}

/**
 * Calls `work` inside of a transaction of a library that neither closes its handle nor tells of a COMMIT that
 * PostgreSQL answers with ROLLBACK. What comes over the handle once `work` is done, as COMMIT is under way say, is refused.
 *
 * @returns what is to be returned after COMMIT.
 * @throws {@link TransactionAbortedError} COMMIT would not commit.
 */
export async function runGuarded<Handle extends object, Result>(
  transaction: OpenTransaction<Handle>,
  work: (transaction: OpenTransaction<Handle>) => Promise<Result>,
): Promise<Result> {
  let isOver = false;
  const handle = guardHandle(transaction.handle, () => isOver);
  let result: Result;
  try {
    result = await work({ ...transaction, handle });
  } finally {
    isOver = true;
  }
  await throwIfAborted(transaction);
  return result;
}

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

/** A handler goes on with a transaction that has ended: nothing of it would be committed with the record. */
export class TransactionOverError extends Error {
  override readonly name = 'TransactionOverError';

  constructor() {
    super(
      'The transaction is over, so its handle takes no more statements. A handler has to await all that it writes before it returns.',
    );
  }
}

/** PostgreSQL rolls back instead of committing, because a statement had failed and the handler went on. */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor(options?: ErrorOptions) {
    super(
      'The transaction was rolled back, because one of its statements had failed. A handler that catches such an error has to roll back to a savepoint, or throw.',
      options,
    );
  }
}

/** BEGIN asks nothing of the server: whoever does not answer it by then is gone. */
const MAX_BEGIN_MS = 10_000;

/**
 * Waits for a transaction to begin. A network that has fallen silent would keep it, and the pool's connection with
 * it, for good.
 *
 * @param timeoutMs - milliseconds after which nobody waits for the transaction any more.
 * @param cut - ends the connection.
 * @throws what `begun` rejects with, or that it took too long: then the connection was cut.
 */
export async function beginWithin(
  timeoutMs: number,
  begun: Promise<unknown>,
  cut: () => void,
): Promise<void> {
  const ms = Math.min(timeoutMs, MAX_BEGIN_MS);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`The database has not answered BEGIN within ${ms} ms.`));
      cut();
    }, ms);
  });
  await Promise.race([begun, late]).finally(() => clearTimeout(timer));
}
