import type { Duration, InMilliseconds } from '../../core/options/duration.js';
import {
  duration,
  integer,
  isFunction,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';

/** How fast expired records are deleted. */
export interface DeletionPace {
  /**
   * Maximum number of records per statement. With large outcomes it deletes fewer: at most 4 MiB, or a single record.
   * @defaultValue 500, from 1 to 100_000
   */
  readonly batchSize?: number | undefined;

  /**
   * How long the server has for other work between two batches: at least so long, and twice as long as the batch took, unless it
   * is '0ms'.
   * @defaultValue '20ms', from '0ms' to '1m'
   */
  readonly pause?: Duration | undefined;
}

/** Options of `deleteExpired()`. */
export interface DeleteExpired extends DeletionPace {
  /** Stops the deletion after the current batch. */
  readonly signal?: AbortSignal | undefined;
}

/** The result of one round of deletion. */
export interface DeletionReport {
  /** Number of records. */
  readonly deleted: number;
  /** Number of statements, including the last one, which may have found nothing; 0 if another process is deleting. */
  readonly batches: number;
  /** Milliseconds of the longest statement, measured in this process. */
  readonly longestBatchMs: number;
  /** Milliseconds of the round, including its pauses. */
  readonly tookMs: number;
}

export interface DeletionRound {
  readonly report: DeletionReport;
  /** By the server's clock: records that expired earlier are done. */
  readonly reached: number;
}

/** Most of the time is others': the median of their statements is then as without the deletion. */
const PAUSE_PER_BATCH = 2;

type Pace = InMilliseconds<Defaulted<DeletionPace>>;

const PACE = {
  batchSize: integer({ default: 500, min: 1, max: 100_000 }),
  pause: duration({ default: '20ms', min: '0ms', max: '1m' }),
};

/** What one statement has deleted. */
export interface DeletedBatch {
  readonly deleted: number;
  /** Whether no expired record is left. */
  readonly isLast: boolean;
  /** Where the next batch begins; `undefined`: where this one did. */
  readonly reached: number | undefined;
}

/**
 * Deletes until no expired record is left, or another process is deleting.
 * @param from - where to begin, by the server's clock: skips records that expired earlier. 0 for all.
 * @param deleteBatch - `undefined` while another process is deleting.
 * @param onDeleted - called with the number of records of each batch.
 */
export async function deleteInBatches(
  options: DeleteExpired,
  from: number,
  deleteBatch: (batchSize: number, reached: number) => Promise<DeletedBatch | undefined>,
  onDeleted: (records: number) => void,
): Promise<DeletionRound> {
  const level = { others: ['signal'] };
  const pace = resolveOptions<DeletionPace, Pace>('deleteExpired', PACE, options, level);
  const { signal } = options;
  const started = performance.now();
  let [deleted, batches, longestBatchMs, reached] = [0, 0, 0, from];
  while (signal?.aborted !== true) {
    const sent = performance.now();
    const batch = await deleteBatch(pace.batchSize, reached);
    if (batch === undefined) break;
    const tookMs = performance.now() - sent;
    longestBatchMs = Math.max(longestBatchMs, tookMs);
    batches += 1;
    deleted += batch.deleted;
    onDeleted(batch.deleted);
    reached = batch.reached ?? reached;
    if (batch.isLast) break;
    // On a server that is slow, or busy, a fixed pause would leave it little time for others.
    await pause(pace.pause === 0 ? 0 : Math.max(pace.pause, PAUSE_PER_BATCH * tookMs), signal);
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
    // A signal that is already aborted emits no event.
    if (signal?.aborted === true) end();
    else signal?.addEventListener('abort', end);
  });
}

/** Options of a store for deleting expired records. */
export interface DeletionOptions {
  /**
   * How often, and how fast, the store deletes expired records, from `open()` to `close()`, which Nest calls. Every
   * process may do so: while one deletes, the others skip their round. `false` to delete them by other means:
   * `store.deleteExpired()`, or `pg_cron`. On by default.
   */
  readonly deleteExpired?: DeletionInterval | false | undefined;

  /** Called after each round in which this process deleted, for metrics. @defaultValue none */
  readonly onDeleted?: ((report: DeletionReport) => void) | undefined;

  /**
   * Called when a round fails, but not again before one has succeeded. Requests do not depend on it: expired records
   * count as absent, and the next round deletes them.
   * @defaultValue a warning in Nest's log, code `postgres_deletion_failed` or `mysql_deletion_failed`; outside of Nest
   * a process warning, code `IDEMPOTENCY_POSTGRES_DELETION` or `IDEMPOTENCY_MYSQL_DELETION`
   */
  readonly onDeletionError?: ((error: Error) => void) | undefined;
}

/** How often expired records are deleted, and at what pace. */
export interface DeletionInterval extends DeletionPace {
  /**
   * How long from one round to the next, shortened at random by up to half. What expires in between is deleted in
   * one go, and waits for vacuum: with hundreds of new keys a second, choose some seconds.
   * @defaultValue '1m', from '100ms' to '24h'
   */
  readonly interval?: Duration | undefined;
}

export type ResolvedInterval = InMilliseconds<Defaulted<DeletionInterval>>;

export interface ResolvedDeletionOptions extends Omit<DeletionOptions, 'deleteExpired'> {
  readonly deleteExpired: ResolvedInterval | false;
}

export const DELETION: Schema<DeletionOptions, ResolvedDeletionOptions> = {
  deleteExpired: {
    fields: { interval: duration({ default: '1m', min: '100ms', max: '24h' }), ...PACE },
    canBeOff: true,
  },
  onDeleted: of('a function', isFunction, { defaultText: 'none' }),
  onDeletionError: of('a function', isFunction, {
    defaultText:
      "a warning in Nest's log, code `postgres_deletion_failed` or `mysql_deletion_failed`; outside of Nest a process warning, code `IDEMPOTENCY_POSTGRES_DELETION` or `IDEMPOTENCY_MYSQL_DELETION`",
  }),
};
