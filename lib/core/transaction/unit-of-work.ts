/** The isolation level of a transaction (SQL:2023-2 §4.41.4). */
export type IsolationLevel = 'read committed' | 'repeatable read' | 'serializable';

/** How a unit of work opens a transaction. */
export interface TransactionOptions {
  /** `undefined`: the database's default. */
  readonly isolation: IsolationLevel | undefined;
  /** Milliseconds after which the result is no longer used, for libraries that have a timeout. */
  readonly timeoutMs: number;
}

/** An open transaction of the application. */
export interface OpenTransaction<Handle = unknown> {
  /** What the application's code uses: a client of pg, an `EntityManager`, a session of MongoDB. */
  readonly handle: Handle;

  /** Aborted when the connection is lost, if the library reports it. */
  readonly lost?: AbortSignal | undefined;

  /** Closes the connection at once, even if a statement is running, where the library supports it. */
  cut?(): void;
}

/**
 * The port to the library that opens the application's transactions: a driver or an ORM. With the option `transaction`,
 * the records must be in the same database: its store writes them through the same {@link OpenTransaction}.
 *
 * A custom adapter for PostgreSQL extends `PostgresUnitOfWork` and implements one method. `Handle` is what handlers get
 * by `@IdempotencyTransaction()`.
 */
export abstract class UnitOfWork<Handle = unknown> {
  /**
   * Opens a transaction and calls `work` with it, once. Commits, then resolves with the result of `work`. If `work`
   * rejects, rolls back, then throws the same error.
   * @throws the library's error if it cannot open or commit. After a failed commit the adapter need not determine
   * whether the transaction was committed: the record shows it.
   */
  abstract run<Result>(
    options: TransactionOptions,
    work: (transaction: OpenTransaction<Handle>) => Promise<Result>,
  ): Promise<Result>;

  /**
   * Whether a transaction failed because of a concurrent one and may succeed on a retry: serialization failure or
   * deadlock, also within an error of the library.
   */
  abstract isConflict(error: unknown): boolean;

  /** Whether a transaction failed because the server ended it or its connection. */
  abstract isInterruption(error: unknown): boolean;

  /**
   * Whether a transaction failed because its connection sent the reply of another statement: a
   * `StoreReplyMismatchedError`, also within an error of the library.
   */
  abstract isReplyMismatch(error: unknown): boolean;
}
