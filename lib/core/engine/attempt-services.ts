import type { Attempt } from '../operation/attempt.js';
import type { IdempotencyEvents } from '../record/events.js';
import type { IdempotencyStore } from '../store/idempotency-store.js';
import type { DeadlineTimer } from '../util/time.js';
import type { ShutdownState } from './outcome-writer.js';

export interface AttemptServices {
  readonly store: IdempotencyStore;
  readonly events: IdempotencyEvents;
  readonly shutdownState: ShutdownState;
  readonly deadlines: DeadlineTimer;
  /** The operation has ended, and its outcome is being stored. */
  settling(attempt: Attempt): void;
  /** The attempt can no longer have an effect, though its operation may still be running. */
  lost(attempt: Attempt): void;
  /** The attempt has ended, including its last save. */
  ended(attempt: Attempt): void;
}
