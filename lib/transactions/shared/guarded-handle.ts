import { NONCE_QUERY, queryInTransaction } from './sql-reply.js';
import { hasSqlState } from './sql-state.js';
import type { SqlTransaction } from './sql-transaction.js';

/** What a handle does not do. */
interface HandleLimits {
  readonly isOver: () => boolean;
  /** Whether this method would end the transaction, which the library does. */
  readonly ends?: (method: string | symbol) => boolean;
}

/**
 * Wraps the handle of a transaction in one that throws once `isOver` returns true. The original could still write, on a
 * connection that serves another request by then.
 */
export function guardHandle<Handle extends object>(
  handle: Handle,
  { isOver, ends }: HandleLimits,
): Handle {
  const throwIfOver = () => {
    if (isOver()) throw new TransactionOverError();
  };
  return new Proxy(handle, {
    get(_, name) {
      // An async function that returns the handle reads its `then`.
      if (name !== 'then') throwIfOver();
      if (ends?.(name) === true) return () => Promise.reject(new TransactionControlError());
      const value: unknown = Reflect.get(handle, name, handle);
      // Methods with private fields must be called on the handle itself.
      return typeof value === 'function' ? (value.bind(handle) as unknown) : value;
    },
    apply(callable, self, values: unknown[]) {
      throwIfOver();
      return Reflect.apply(callable as (...values: unknown[]) => unknown, self, values);
    },
  });
}

/**
 * Calls `work` in a transaction of a library that neither closes its handle nor reports a COMMIT that PostgreSQL
 * replies to with ROLLBACK. Rejects statements on the handle once `work` is done, also during COMMIT.
 *
 * @param endings - the methods of the handle that would end the transaction: they reject.
 * @returns the result, to be returned after COMMIT.
 * @throws {@link TransactionAbortedError} COMMIT would not commit.
 */
export async function runGuarded<Handle extends object, Result>(
  transaction: SqlTransaction<Handle>,
  work: (transaction: SqlTransaction<Handle>) => Promise<Result>,
  endings: readonly (string | symbol)[] = [],
): Promise<Result> {
  let isOver = false;
  const handle = guardHandle(transaction.handle, {
    isOver: () => isOver,
    ends: (method) => endings.includes(method),
  });
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
 * The last statement before COMMIT, for libraries that do not report when PostgreSQL replies to it with ROLLBACK. Fails
 * if COMMIT would roll back, or would get the reply of another statement.
 *
 * @throws {@link TransactionAbortedError} a statement of the transaction has failed.
 */
export async function throwIfAborted(
  transaction: Pick<SqlTransaction, 'query' | 'cut'>,
): Promise<void> {
  try {
    await queryInTransaction(transaction, NONCE_QUERY);
  } catch (error) {
    throw hasSqlState(error, IN_FAILED_TRANSACTION)
      ? new TransactionAbortedError({ cause: error })
      : error;
  }
}

/** A handler used a transaction that was over: its writes would not commit with the record. */
export class TransactionOverError extends Error {
  override readonly name = 'TransactionOverError';

  constructor() {
    super(
      'The transaction is over: its handle rejects further statements. Await all writes before the handler returns.',
    );
  }
}

/** The transaction was rolled back instead of committed: a statement had failed, and the handler continued. */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor(options?: ErrorOptions) {
    super(
      'The transaction was rolled back because one of its statements had failed. After catching such an error, roll back to a savepoint, or throw.',
      options,
    );
  }
}

/** A handler tries to begin or end the transaction that commits with the record. */
export class TransactionControlError extends Error {
  override readonly name = 'TransactionControlError';

  constructor() {
    super(
      'The library begins and ends the transaction around the handler: its handle rejects BEGIN, COMMIT and ROLLBACK. Throw an error to roll back, or use savepoints.',
    );
  }
}

/** BEGIN does no work: a server that takes longer is gone. */
const MAX_BEGIN_MS = 10_000;

/**
 * Waits for a transaction to begin. On a network that drops packets it would otherwise wait forever, and keep the
 * connection.
 *
 * @param timeoutMs - milliseconds after which the caller gives up.
 * @param cut - closes the connection.
 * @throws the rejection of `begun`, or a timeout error: then the connection was cut.
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
      reject(new Error(`The database did not reply to BEGIN within ${ms} ms.`));
      cut();
    }, ms);
  });
  await Promise.race([begun, late]).finally(() => clearTimeout(timer));
}
