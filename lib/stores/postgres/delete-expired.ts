import { checkInteger, checkNames, within } from '../../core/util/option-checks.js';
import { CommandBudget } from './command-budget.js';
import type { SqlStatement } from './sql-statements.js';
import type { StatementRunner } from './statement-runner.js';
import type { TableName } from './table-name.js';

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
export function checkDeletionPace({ batchSize, pauseMs }: DeletionPace, prefix = ''): void {
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
    const budget = new CommandBudget(BATCH_TIMEOUT_MS);
    const [mine, deletedNow, isLast, next] = await runner.run(statement, values, budget);
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
