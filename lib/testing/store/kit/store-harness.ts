import type { IdempotencyStore } from '../../../core/store/idempotency-store.js';

/**
 * The clock that the store under test judges by, driven by the kit. It stands still between two steps.
 *
 * A store reads the time in its server: for the kit, let it read something that the test can set (Redis:
 * scripts whose `TIME` is replaced when they are loaded; SQL: a table or a setting instead of
 * `clock_timestamp()`).
 */
export interface SteppableClock {
  /** Milliseconds since the epoch. */
  now(): number | Promise<number>;
  /** Moves the clock by so many milliseconds; backwards when negative. */
  step(ms: number): void | Promise<void>;
}

/** A store of its own for one case, empty or with nothing but foreign records. */
export interface StoreHarness {
  readonly store: IdempotencyStore;
  /** Left out when the store's clock cannot be driven: see `needsClock` of a case. */
  readonly clock?: SteppableClock | undefined;
  /** Called after the case, however it ended. */
  dispose?(): void | Promise<void>;
}
