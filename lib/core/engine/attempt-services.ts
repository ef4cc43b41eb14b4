import type { Attempt } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import type { AttemptEnd, AttemptSubject } from '../record/events.js';
import type { IdempotencyEvents } from '../record/idempotency-events.js';
import type { Outcome } from '../record/record.js';
import type { IdempotencyStore } from '../store/idempotency-store.js';
import type { Clock } from '../util/clock.js';
import type { DeadlineTimer } from '../util/time.js';

/** An attempt as the engine keeps it. */
export interface EngineAttempt extends Attempt {
  readonly request: OperationRequest;
  readonly subject: AttemptSubject;
  /** Milliseconds since its begin was sent. */
  readonly elapsedMs: number;
  /** Milliseconds, negative once the lease has expired; `undefined` without a lease that is extended. */
  readonly leaseLeftMs: number | undefined;
}

export interface ShutdownState {
  /** Set once the shutdown no longer waits. Records that are not settled by then are left to their leases. */
  readonly expired: boolean;
}

export interface AttemptServices {
  readonly store: IdempotencyStore;
  readonly events: IdempotencyEvents;
  readonly shutdownState: ShutdownState;
  readonly clock: Clock;
  readonly deadlines: DeadlineTimer;
  /** The operation has ended, and its outcome is being stored. */
  settling(attempt: EngineAttempt): void;
  /** The attempt can no longer have an effect, though its operation may still be running. */
  lost(attempt: EngineAttempt): void;
  /**
   * The attempt has ended, including its last save.
   * @param stored - its own outcome, if that is stored.
   */
  ended(attempt: EngineAttempt, how: AttemptEnd, stored?: Outcome): void;
}
