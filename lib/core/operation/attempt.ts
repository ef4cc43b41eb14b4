import type { FinishedState, Outcome } from '../record/record.js';

/** A kept outcome of an attempt. */
export interface FinalOutcome {
  readonly state: FinishedState;
  readonly outcome: Outcome;
  /** Milliseconds from completion. */
  readonly retentionMs: number;
  /**
   * Whether to roll back the operation's transaction, because it failed. Ignored without a transaction.
   * @defaultValue false
   */
  readonly undo?: boolean;
}

/** What the attempt's own caller gets after the outcome was sent to the store. */
export type Settlement =
  /** Its own outcome. */
  | { readonly kind: 'own' }
  /** Another attempt's, which is stored: all callers get the same outcome. */
  | { readonly kind: 'other'; readonly state: FinishedState; readonly outcome: Outcome }
  /** Outcome unknown: the key has since been reused for other content, whose outcome is stored. */
  | { readonly kind: 'unknown' }
  /** In progress: another attempt is running and has not ended in time. */
  | { readonly kind: 'in_progress' }
  /** Store unavailable: the outcome was not stored in time, and `onSaveFailure` is `'error'`. */
  | { readonly kind: 'unsaved' }
  /** Rolled back because of a conflict with a concurrent transaction. A retry may succeed. */
  | { readonly kind: 'conflict' };

export interface AttemptTransaction {
  /** What the unit of work provides to the application's code. */
  readonly handle: unknown;
  /** See {@link UnitOfWork.isConflict}. */
  isConflict(error: unknown): boolean;
  /** Whether the operation failed because the server ended its transaction or connection. */
  isInterruption(error: unknown): boolean;
  /** Emits `conflicted`: the operation conflicted with a concurrent transaction. */
  conflicted(): void;
  /**
   * Rolls back, then opens a new transaction after `pauseMs`, jittered.
   *
   * @returns whether the operation can run again.
   */
  restart(pauseMs: number): Promise<boolean>;
  /** Commits the operation's writes, but does not keep its outcome: it can run again. Never rejects. */
  commitUnkept(): Promise<Settlement>;
  /**
   * Calls `hook` after the commit. Never calls it if the transaction is not committed.
   *
   * @throws {@link NoTransactionError} if the transaction has ended.
   */
  onCommitted(hook: () => unknown): void;
  /** Rolls back at the end of the shutdown: the application is about to close the connection. */
  giveUp(): void;
}

/** One try to run an operation, started by the engine. It must be ended by {@link complete} or {@link release}. */
export interface Attempt {
  /** 1 for the first attempt of its key. */
  readonly number: number;
  /** The outcome of an earlier attempt of this key is unknown: it may have had its effect. */
  readonly isTakeover: boolean;
  /** Only grows per record key, below 2^53; 0 in an unprotected attempt. */
  readonly fencingToken: number;
  /** False if the store was unavailable and `onStoreUnavailable` is `'execute'`. */
  readonly isProtected: boolean;
  /** Aborted once the attempt can no longer rely on its lease; its reason is a `LeaseLossReason`. */
  readonly signal: AbortSignal;
  /** Only of `transactional` operations. */
  readonly transaction: AttemptTransaction | undefined;
  /** Stores the outcome. Resolves with what to respond, when the response may be sent. Never rejects. */
  complete(final: FinalOutcome): Promise<Settlement>;
  /** Lets the operation run again at once. Never rejects: if it fails, the key becomes free with the lease. */
  release(): Promise<void>;
  /** Emits `recovered`: the outcome is an earlier attempt's, and the operation does not run. */
  recovered(): void;
  /** Emits `response_diverged`: the operation succeeded, but its response reports a failure. */
  responseDiverged(): void;
}
