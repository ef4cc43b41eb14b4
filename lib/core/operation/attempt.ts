import type { FinishedState, Outcome } from '../record/record.js';

/** The outcome of an attempt that is to be kept. */
export interface FinalOutcome {
  readonly state: FinishedState;
  readonly outcome: Outcome;
  /** Milliseconds from completion. */
  readonly retentionMs: number;
  /**
   * Whether what the operation has written in its transaction is to be rolled back: it failed. Of no meaning without a
   * transaction.
   *
   * @defaultValue false
   */
  readonly undo?: boolean;
}

/** What the attempt's own caller is to be told once its outcome has been handed to the store. */
export type Settlement =
  /** Its own outcome. */
  | { readonly kind: 'own' }
  /** Another attempt's, which stands in the record: all callers see one outcome. */
  | { readonly kind: 'other'; readonly state: FinishedState; readonly outcome: Outcome }
  /** Nobody's that may be told: the key was used for another content since, whose outcome stands. Outcome unknown. */
  | { readonly kind: 'unknown' }
  /** Another attempt is running and has not ended in time: in progress, come back later. */
  | { readonly kind: 'in_progress' }
  /** The outcome could not be stored in time and `onSaveFailure` is `'error'`: store unavailable. */
  | { readonly kind: 'unsaved' }
  /** A concurrent transaction was in the way: all was rolled back and may be tried again. */
  | { readonly kind: 'conflict' };

/** The transaction that an attempt runs in. */
export interface AttemptTransaction {
  /** What the unit of work gives to the application's code. */
  readonly handle: unknown;
  /** See {@link UnitOfWork.isConflict}. */
  isConflict(error: unknown): boolean;
  /** Whether the operation failed because its transaction was ended from outside. */
  isInterruption(error: unknown): boolean;
  /** Raises `conflicted`: a concurrent transaction was in the way of the operation. */
  conflicted(): void;
  /**
   * Rolls back, and opens another transaction after a while.
   *
   * @returns whether the operation may run again.
   */
  restart(pauseMs: number): Promise<boolean>;
  /** Commits what the operation has written, and lets it run again: its outcome is not to be kept. Never rejects. */
  commitUnkept(): Promise<Settlement>;
  /**
   * Calls `hook` once the transaction was committed; never if it was not.
   *
   * @throws {@link NoTransactionError} when it is over.
   */
  onCommitted(hook: () => unknown): void;
  /** The shutdown no longer waits: rolls back, for the connection is the application's, and about to be closed. */
  giveUp(): void;
}

/** One try to run an operation that the engine has let through. It must be ended by one of its two methods. */
export interface Attempt {
  /** 1 for the first attempt of its key. */
  readonly number: number;
  /** An earlier attempt of this key ended unknown: it may have had its effect. */
  readonly isTakeover: boolean;
  /** Only grows per record key, below 2^53; 0 in an unprotected run. */
  readonly fencingToken: number;
  /** False when the store could not be reached and `onStoreUnavailable` is `'execute'`. */
  readonly isProtected: boolean;
  /** Aborted once the attempt may no longer count on its lease; its reason is a `LeaseLossReason`. */
  readonly signal: AbortSignal;
  /** Only where the operation is `transactional`. */
  readonly transaction: AttemptTransaction | undefined;
  /** Stores the outcome; resolves when the answer may leave, and says which one. Never rejects. */
  complete(final: FinalOutcome): Promise<Settlement>;
  /** Lets the operation run again at once. Never rejects: a release that fails ends with the lease. */
  release(): Promise<void>;
  /** Raises `recovered`: what an earlier attempt has done is its outcome, the operation does not run. */
  recovered(): void;
  /** Raises `response_diverged`: the operation succeeded, what goes out says otherwise. */
  responseDiverged(): void;
}
