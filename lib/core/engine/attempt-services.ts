import type { Annotations } from '../record/annotations.js';
import type { IdempotencyEvents } from '../record/idempotency-events.js';
import type { OutcomeTransform } from '../payload/outcome-transform.js';
import type { IdempotencyStore } from '../store/idempotency-store.js';
import type { Clock } from '../util/clock.js';
import type { DeadlineTimer } from '../util/time.js';
import type { LocalAttempts } from './local-attempts.js';

/** What an engine and its attempts work with. */
export interface AttemptServices {
  readonly store: IdempotencyStore;
  readonly events: IdempotencyEvents;
  readonly clock: Clock;
  readonly deadlines: DeadlineTimer;
  readonly attempts: LocalAttempts;
  readonly outcomes: OutcomeTransform;
  /** `undefined`: records are not annotated. */
  readonly annotations: Annotations | undefined;
}
