import {
  checkFunction,
  checkInteger,
  checkNames,
  throwOptionError,
  within,
} from '../../../core/util/option-checks.js';
import { Deadline } from '../connection/deadline.js';
import type { SqlStatement } from '../sql/sql-statements.js';
import type { TableName } from '../sql/table-name.js';
import type { StatementRunner } from '../statements/statement-runner.js';

/** How the deletion of expired records is paced. */
export interface DeletionPace {
  /**
   * How many records one statement deletes at the most. With large outcomes it deletes fewer: none takes more
   * than 4 MiB of them, unless one alone is larger.
   *
   * @defaultValue 500
   */
  readonly batchSize?: number | undefined;

  /**
   * Milliseconds between two batches, so that the server has time for others.
   *
   * @defaultValue 20
   */
  readonly pauseMs?: number | undefined;
}

/** Options of {@link PostgresIdempotencyStore.deleteExpired}. */
export interface DeleteExpired extends DeletionPace {
  /** Stops it after the batch under way. */
  readonly signal?: AbortSignal | undefined;
}

/** What one round of deletion did. */
export interface DeletionReport {
  /** How many records. */
  readonly deleted: number;
  /** In how many statements, the last one included, which may have found nothing; 0 where another process was at it. */
  readonly batches: number;
  /** Milliseconds that the longest of them took, as this process saw it. */
  readonly longestBatchMs: number;
  /** Milliseconds of the whole round, with its pauses. */
  readonly tookMs: number;
}

/** A round, and where the next one may begin. */
export interface DeletionRound {
  readonly report: DeletionReport;
  /** Seconds of the server's clock: all that expired before has been dealt with. */
  readonly reached: number;
}

const OPTION_NAMES = new Set(['batchSize', 'pauseMs', 'signal']);
const BATCH_TIMEOUT_MS = 10_000;
/** The server deletes them at 2 to 6 ms a MiB. */
const BATCH_BYTES = 4 * 1024 * 1024;

/** @throws {@link IdempotencyOptionsError} when an option cannot work. */
function checkDeletionPace({ batchSize, pauseMs }: DeletionPace, prefix = ''): void {
  if (batchSize !== undefined) checkInteger(`${prefix}batchSize`, batchSize, 1, 100_000);
  if (pauseMs !== undefined) checkInteger(`${prefix}pauseMs`, pauseMs, 0, 60_000);
}

/**
 * Deletes until nothing is left that has expired, or another process is at it.
 *
 * @param from - seconds of the server's clock: what expired before is left alone. 0 for everything.
 */
export async function deleteExpired(
  runner: StatementRunner,
  statement: SqlStatement,
  table: TableName,
  options: DeleteExpired,
  from = 0,
): Promise<DeletionRound> {
  checkNames('deleteExpired', options, OPTION_NAMES);
  within('deleteExpired', 'deleteExpired', () => {
    checkDeletionPace(options);
  });
  const { batchSize = 500, pauseMs = 20, signal } = options;
  const lock = table.advisoryLock('deletion');
  const started = performance.now();
  let [deleted, batches, longestBatchMs, reached] = [0, 0, 0, from];
  while (signal?.aborted !== true) {
    const sent = performance.now();
    const values = [batchSize, lock, reached, BATCH_BYTES];
    const deadline = new Deadline(BATCH_TIMEOUT_MS);
    const [mine, deletedNow, isLast, next] = await runner.run(statement, values, deadline);
    if (mine === 'f') break;
    longestBatchMs = Math.max(longestBatchMs, performance.now() - sent);
    batches += 1;
    deleted += Number(deletedNow);
    if (next !== undefined) reached = Number(next);
    if (isLast === 't') break;
    await pause(pauseMs, signal);
  }
  return {
    report: { deleted, batches, longestBatchMs, tookMs: performance.now() - started },
    reached,
  };
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    // An abort that came while the batch was under way is not told of again.
    if (signal?.aborted === true) end();
    else signal?.addEventListener('abort', end);
  });
}

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
    throwOptionError('deleteExpired', 'an object of its options, or false', deleteExpired);
  }
  checkNames('deleteExpired', deleteExpired, INTERVAL_NAMES);
  const { intervalMs, ...pace } = deleteExpired;
  if (intervalMs !== undefined) {
    checkInteger('deleteExpired.intervalMs', intervalMs, 100, 86_400_000);
  }
  checkDeletionPace(pace, 'deleteExpired.');
}
