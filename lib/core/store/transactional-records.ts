import type { FinishedState, Lease, Outcome } from '../record/record.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';

/**
 * Whether the outcome is in the transaction. `committed`: the operation itself has committed the one in which the record was
 * locked, and nothing is written. `lost`: it has rolled that one back, or the attempt no longer has the record; the
 * transaction must not be committed.
 */
export type TransactionalCompletion = 'stored' | 'committed' | 'lost';

/**
 * A store's part in transactions of the application in its database. It writes through their `handle`, or through what
 * its database's units of work add to {@link OpenTransaction}: `query` in `SqlTransaction`. The lock on the record serves
 * as the lease: while it is held, begin replies `in_progress`, even if the lease has expired.
 */
export interface TransactionalRecords {
  /**
   * Locks the record until the transaction ends, as its first statement. Sets the server's timeout of the transaction
   * to `lease.maxExecution`.
   * @returns false if the attempt no longer has the record.
   */
  lock(
    transaction: OpenTransaction,
    lease: Lease,
    command: { readonly maxExecutionMs: number },
  ): Promise<boolean>;

  /** Stores the outcome in the transaction. */
  complete(
    transaction: OpenTransaction,
    lease: Lease,
    command: {
      readonly state: FinishedState;
      readonly outcome: Outcome;
      /** Milliseconds from now. */
      readonly retentionMs: number;
      /** As in {@link Complete.note}. */
      readonly note?: string | undefined;
    },
  ): Promise<TransactionalCompletion>;

  /** Waits until the locking transaction has ended, without queueing for its lock. Throws, also on timeout. */
  ended(lease: Lease, command: { readonly timeoutMs: number }): Promise<void>;

  /** Notifies watchers of the record after the commit. Best effort, not awaited. */
  committed(lease: Lease, command: { readonly timeoutMs: number }): void;
}
