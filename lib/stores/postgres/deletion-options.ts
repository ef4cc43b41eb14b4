import { checkFunction, checkInteger, checkNames, fail } from '../../core/util/option-checks.js';
import { checkDeletionPace, type DeletionPace, type DeletionReport } from './delete-expired.js';

/** Options of a {@link PostgresIdempotencyStore}: when it deletes what has expired, and who hears of it. */
export interface DeletionOptions {
  /**
   * How often, and how fast, the store deletes expired records by itself, from `open()` to `close()`; Nest
   * calls both. Every process may do so: while one deletes, the others leave it to that one.
   *
   * `false` where it is done otherwise: by {@link PostgresIdempotencyStore.deleteExpired}, or by `pg_cron`.
   *
   * @defaultValue every minute, 500 records at a time, 20 ms apart
   */
  readonly deleteExpired?: DeletionInterval | false | undefined;

  /**
   * Called after each round in which it was this process's turn, for metrics.
   *
   * @defaultValue nobody is told
   */
  readonly onDeleted?: ((report: DeletionReport) => void) | undefined;

  /**
   * Called when a round fails, and not again until one has succeeded. Requests do not depend on it: what
   * has expired counts as absent, and the next round deletes it.
   *
   * @defaultValue a warning in Nest's log, code `postgres_deletion_failed`; outside of Nest one of the process, code
   * `IDEMPOTENCY_POSTGRES_DELETION`
   */
  readonly onDeletionError?: ((error: Error) => void) | undefined;
}

export interface DeletionInterval extends DeletionPace {
  /**
   * Milliseconds from one round to the next, up to half of them left out at random. What expires in between
   * is deleted at once and waits for vacuum together: with hundreds of new keys a second, some seconds.
   *
   * 100 to 86 400 000.
   *
   * @defaultValue 60000
   */
  readonly intervalMs?: number | undefined;
}

const INTERVAL_NAMES = new Set(['intervalMs', 'batchSize', 'pauseMs']);

/** @throws {@link IdempotencyOptionsError} naming the option, what it may be and what it is. */
export function checkDeletionOptions(options: DeletionOptions): void {
  const { deleteExpired, onDeleted, onDeletionError } = options;
  if (onDeleted !== undefined) checkFunction('onDeleted', onDeleted);
  if (onDeletionError !== undefined) checkFunction('onDeletionError', onDeletionError);
  if (deleteExpired === undefined || deleteExpired === false) return;
  if (typeof deleteExpired !== 'object') {
    fail('deleteExpired', 'an object of its options, or false', deleteExpired);
  }
  checkNames('deleteExpired', deleteExpired, INTERVAL_NAMES);
  const { intervalMs, ...pace } = deleteExpired;
  if (intervalMs !== undefined) {
    checkInteger('deleteExpired.intervalMs', intervalMs, 100, 86_400_000);
  }
  checkDeletionPace(pace, 'deleteExpired.');
}
