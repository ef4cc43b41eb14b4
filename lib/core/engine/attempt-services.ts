import type { Attempt } from '../operation/attempt.js';
import type { IdempotencyEvents } from '../record/events.js';
import type { IdempotencyStore } from '../store/idempotency-store.js';
import type { DeadlineTimer } from '../util/deadlines.js';
import type { ShutdownState } from './outcome-writer.js';

/** What an attempt needs of the engine that let it through. */
export interface AttemptServices {
  readonly store: IdempotencyStore;
  readonly events: IdempotencyEvents;
  readonly shutdownState: ShutdownState;
  readonly deadlines: DeadlineTimer;
  /** The operation is over, and its outcome on the way to the store. */
  settling(attempt: Attempt): void;
  /** The attempt can have no effect any more, though its operation may still be running. */
  lost(attempt: Attempt): void;
  /** The attempt is over, its last save included. */
  ended(attempt: Attempt): void;
}
