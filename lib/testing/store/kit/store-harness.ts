import type { IdempotencyStore } from '../../../core/store/idempotency-store.js';

/**
 * The clock of the store under test, driven by the kit. It stands still between two steps. A store reads the time in
 * its server: for the kit, let it read a value that the test can set (Redis: scripts whose `TIME` is replaced when they
 * are loaded; SQL: a table or a setting instead of `clock_timestamp()`).
 */
export interface SteppableClock {
  /** Milliseconds since the epoch. */
  now(): number | Promise<number>;
  /** Moves the clock by this many milliseconds, backwards if negative. */
  step(ms: number): void | Promise<void>;
}

/** A store for one case, empty or with foreign records only. */
export interface StoreHarness {
  readonly store: IdempotencyStore;
  /** Omitted if the store's clock cannot be driven: see `needsClock` of a case. */
  readonly clock?: SteppableClock | undefined;
  /** Called after the case, passed or failed. */
  dispose?(): void | Promise<void>;
}
