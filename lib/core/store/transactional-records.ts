import type { FinishedState, Lease, Outcome } from '../record/record.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';

/**
 * A store's part in transactions of the application, which are in the same database as its records. The lock on the
 * record is the lease: whoever begins meanwhile is told `in_progress`, however long ago the lease has run out.
 */
export interface TransactionalRecords {
  /**
   * Locks the record until the transaction ends, as its first statement, and has the server end the transaction after
   * `maxExecutionMs`.
   *
   * @returns false when the record is no longer the attempt's.
   */
  lock(
    transaction: OpenTransaction,
    lease: Lease,
    command: { readonly maxExecutionMs: number },
  ): Promise<boolean>;

  /**
   * Stores the outcome, to be committed with the rest.
   *
   * @returns false when it was not stored: then the transaction must not be committed.
   */
  complete(
    transaction: OpenTransaction,
    lease: Lease,
    command: {
      readonly state: FinishedState;
      readonly outcome: Outcome;
      /** Milliseconds from now. */
      readonly retentionMs: number;
    },
  ): Promise<boolean>;

  /**
   * Waits until the transaction that has locked the record is over, without standing in line for its lock.
   *
   * @throws as the store's methods do, also when it is not over within `timeoutMs`.
   */
  ended(lease: Lease, command: { readonly timeoutMs: number }): Promise<void>;

  /** Tells those who watch the record of its end, after the commit. Best effort, not waited for. */
  committed(lease: Lease, command: { readonly timeoutMs: number }): void;
}
