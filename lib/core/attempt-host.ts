import type { AlarmClock } from './alarm-clock.js';
import type { Attempt } from './attempt.js';
import type { IdempotencyEvents } from './events.js';
import type { IdempotencyStore } from './idempotency-store.js';
import type { Patience } from './outcome-writer.js';

/** What an attempt needs of the engine that let it through. */
export interface AttemptHost {
  readonly store: IdempotencyStore;
  readonly events: IdempotencyEvents;
  readonly patience: Patience;
  readonly alarms: AlarmClock;
  /** The operation is over, and its outcome on the way to the store. */
  settling(attempt: Attempt): void;
  /** The attempt can have no effect any more, though its operation may still be running. */
  lost(attempt: Attempt): void;
  /** The attempt is over, its last save included. */
  ended(attempt: Attempt): void;
}
