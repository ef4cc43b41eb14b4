/** How far a transaction is kept apart from concurrent ones (SQL:2023-2 §4.41.4). */
export type IsolationLevel = 'read committed' | 'repeatable read' | 'serializable';

/** What a statement is given for `$1`, `$2`, …. */
export type TransactionValue = string | number | boolean | Uint8Array | null;

/** How a transaction is to be opened. */
export interface TransactionOptions {
  /** `undefined` for the database's default. */
  readonly isolation: IsolationLevel | undefined;
  /** Milliseconds after which nobody waits for it any more, for libraries that want to be told. */
  readonly timeoutMs: number;
}

/** A transaction of the application's that is open. */
export interface OpenTransaction<Handle = unknown> {
  /** What the application's code works with: a client of pg, an `EntityManager`, a Prisma client. */
  readonly handle: Handle;

  /**
   * Runs one statement inside of it.
   *
   * @param text - with `$1`, `$2`, … where the values go.
   * @returns the rows: of a statement that selects, or returns what it has changed.
   */
  query(text: string, values: readonly TransactionValue[]): Promise<readonly object[]>;

  /** Aborted when the connection is lost, where the library tells. */
  readonly lost?: AbortSignal | undefined;

  /** Ends the connection at once, whatever is running on it, where the library can. */
  cut?(): void;
}

/**
 * The port to whatever opens the application's transactions: pg itself or an ORM. For the transactional mode the
 * database has to be the one that the records are in.
 *
 * An adapter of one's own is one method. `Handle` is what handlers get by `@IdempotencyTransaction()`.
 */
export abstract class UnitOfWork<Handle = unknown> {
  /**
   * Opens a transaction and calls `work` with it, once. Resolves with what `work` resolves with, after the transaction
   * was committed. When `work` rejects, the transaction is rolled back first, and the same error is thrown.
   *
   * @throws whatever the library throws when it cannot open or commit. It need not know whether a commit that
   * failed has happened: the record tells.
   */
  abstract run<Result>(
    options: TransactionOptions,
    work: (transaction: OpenTransaction<Handle>) => Promise<Result>,
  ): Promise<Result>;

  /**
   * Whether a transaction failed because of a concurrent one, so that it may succeed when it is run again:
   * serialization failure (SQLSTATE 40001) or deadlock (40P01), however the library wraps it.
   */
  isConflict(error: unknown): boolean {
    return hasSqlState(error, CONFLICTS);
  }

  /** Whether a transaction failed because the server has ended it, or its connection. */
  isInterruption(error: unknown): boolean {
    return hasSqlState(error, INTERRUPTIONS);
  }
}

/** Connection exceptions and terminations, transaction and idle-in-transaction timeouts. */
const INTERRUPTIONS: ReadonlySet<string> = new Set([
  ...['08000', '08001', '08003', '08004', '08006', '08007', '57P01', '57P02', '57P03', '57P05'],
  ...['25P03', '25P04'],
]);

const CONFLICTS: ReadonlySet<string> = new Set(['40001', '40P01']);

/** What drivers, and the libraries around them, call the SQLSTATE. */
const CODES = ['code', 'originalCode'] as const;
/** Where libraries put the driver's own error; Prisma, deep inside of `meta`. */
const INSIDE = ['cause', 'driverError', 'originalError', 'meta', 'driverAdapterError'] as const;
const DEEPEST = 5;

/** Whether `error`, or what is inside of it, has one of the SQLSTATEs, or of a library's own codes. */
export function hasSqlState(error: unknown, states: ReadonlySet<unknown>, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > DEEPEST) return false;
  const fields = error as Readonly<Record<string, unknown>>;
  return (
    CODES.some((name) => states.has(fields[name])) ||
    INSIDE.some((name) => hasSqlState(fields[name], states, depth + 1))
  );
}
