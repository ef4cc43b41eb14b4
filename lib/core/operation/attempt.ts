import { REJECTED_CODES, type RejectionReason } from '../record/events.js';
import type { FinishedState, LargeBody, Outcome, ReadableOutcome } from '../record/record.js';
import type { Clock } from '../util/clock.js';
import type { RejectionCode } from '../errors/rejections.js';

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
  /** Of its body, if that was streamed: in the outcome it is empty. */
  readonly spool?: BodySpool | undefined;
}

/** A body that is put into the blob store while it is written. */
export interface BodySpool {
  /** How many were written. */
  readonly bytes: number;
  /** Resolves when it is stored as a whole, or failed. */
  readonly settled: Promise<void>;
  readonly isFailed: boolean;
  /** Whether it was {@link fail} that ended it. */
  readonly isGivenUp: boolean;
  /** @param listener - is called when a writer that was asked to wait can go on. */
  onDrain(listener: () => void): void;
  /** @returns whether more may follow at once. Once it has failed, bytes are dropped. */
  write(chunk: Uint8Array): boolean;
  /** The body is whole. */
  end(): void;
  /** Whether the outcome that was completed points to it. Whether that was stored, the settlement tells. */
  readonly isKept: boolean;
  /** Nothing of it is to be stored. */
  fail(error: unknown): void;
  /** Reads it back, once it has settled and its outcome is confirmed. Never rejects. */
  open(): Promise<LargeBody | 'outcome_unreadable' | 'outcome_unavailable' | 'not_kept'>;
  /** Deletes it, as no record points to it. Best effort. */
  discard(): void;
}

/** What the attempt's own caller gets after the outcome was sent to the store. */
export type Settlement =
  | {
      readonly kind: 'own';
      /** `true`: nothing of it is in the store, nor of any other outcome. */
      readonly isLost?: boolean;
    }
  /** Another attempt's, which is stored: all callers get the same outcome. */
  | { readonly kind: 'other'; readonly state: FinishedState; readonly outcome: ReadableOutcome }
  /** Outcome unknown: the key has since been reused for other content, whose outcome is stored. */
  | { readonly kind: 'unknown' }
  /** Another attempt's is stored, and cannot be read; or not by this process. */
  | { readonly kind: 'outcome_unreadable' | 'outcome_unavailable' }
  /** In progress: another attempt is running and has not ended in time. */
  | { readonly kind: 'in_progress' }
  /** Store unavailable: the outcome was not stored in time, and `storeErrors.whenNotSaved` is `'error'`. */
  | { readonly kind: 'unsaved' }
  /** Rolled back because of a conflict with a concurrent transaction. A retry may succeed. */
  | { readonly kind: 'conflict' };

/** The rejection's code, by the reason of a decision or the kind of a settlement. */
export const REJECTION_CODES: Readonly<
  Record<RejectionReason | Exclude<Settlement['kind'], 'own' | 'other'>, RejectionCode>
> = {
  ...REJECTED_CODES,
  unknown: 'idempotency_outcome_unknown',
  unsaved: 'idempotency_store_unavailable',
  conflict: 'idempotency_transaction_conflict',
};

/** The transaction that an attempt runs in. */
export interface AttemptTransaction {
  /** What the unit of work gives to the operation: a client of pg, an `EntityManager`, … */
  readonly handle: unknown;
  /** See {@link UnitOfWork.isConflict}. */
  isConflict(error: unknown): boolean;
  /** Whether the operation failed because the server ended its transaction or connection. */
  isInterruption(error: unknown): boolean;
  /** Emits the event `conflicted`. */
  conflicted(): void;
  /**
   * Rolls back, then opens a new transaction after `pauseMs`, jittered. Returns whether the operation can run again.
   */
  restart(pauseMs: number): Promise<boolean>;
  /** Commits the operation's writes, but does not keep its outcome: it can run again. Never rejects. */
  commitUnkept(): Promise<Settlement>;
  /** Calls `hook` after the commit, if there is one. Throws {@link NoTransactionError} if the transaction has ended. */
  onCommitted(hook: () => unknown): void;
  /** Emits the event `rolled_back`: the release that follows undoes an operation that has succeeded. */
  undone(): void;
  /** Rolls back at the end of the shutdown: the application is about to close the connection. */
  giveUp(): void;
}

/** One try to run an operation, to be ended by {@link complete} or {@link release}. See {@link IdempotencyContext}. */
export interface Attempt {
  readonly number: number;
  readonly isTakeover: boolean;
  readonly fencingToken: number;
  readonly isProtected: boolean;
  readonly signal: AbortSignal;
  readonly transaction: AttemptTransaction | undefined;
  /** The engine's. */
  readonly clock: Clock;
  /** Whether a body of so many bytes can be stored, in the record or in the blob store. */
  keepsBody(bytes: number): boolean;
  /**
   * Starts to put a body that is still being written into the blob store, for {@link complete} to point to.
   * @param isSuccess - as far as it is known: in a transaction that will be rolled back, no blob could be kept.
   * @returns `undefined` if it cannot go there.
   */
  spool(beginning: Uint8Array, retentionMs: number, isSuccess: boolean): BodySpool | undefined;
  /** Stores the outcome. Resolves with what to respond, when the response may be sent. Never rejects. */
  complete(final: FinalOutcome): Promise<Settlement>;
  /** Lets the operation run again at once. Never rejects: if it fails, the key becomes free with the lease. */
  release(): Promise<void>;
  /** The operation starts without protection, perhaps again: it is reported once. */
  startedUnprotected(): void;
  recovered(): void;
  responseDiverged(): void;
  /** A function given as an option failed after the effect, and the safe side was taken. */
  optionFailed(option: string, error: unknown): void;
}
