import { checkInteger, checkNames } from '../../core/option-checks.js';
import { CommandBudget } from './command-budget.js';
import type { SqlStatement } from './sql-statements.js';
import type { StatementRunner } from './statement-runner.js';
import type { TableName } from './table-name.js';

/** Options of {@link PostgresIdempotencyStore.deleteExpired}. */
export interface DeleteExpired {
  /**
   * How many records one statement deletes at the most.
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

  /** Stops it after the batch under way. */
  readonly signal?: AbortSignal | undefined;
}

const OPTION_NAMES = new Set(['batchSize', 'pauseMs', 'signal']);
const BATCH_TIMEOUT_MS = 10_000;

/** Deletes until nothing is left that has expired, or another process is at it. */
export async function deleteExpired(
  runner: StatementRunner,
  statement: SqlStatement,
  table: TableName,
  options: DeleteExpired,
): Promise<number> {
  checkNames('deleteExpired', options, OPTION_NAMES);
  const { batchSize = 500, pauseMs = 20, signal } = options;
  checkInteger('batchSize', batchSize, 1, 100_000);
  checkInteger('pauseMs', pauseMs, 0, 60_000);
  const values = [batchSize, table.advisoryLock('deletion')];
  let total = 0;
  while (signal?.aborted !== true) {
    const budget = new CommandBudget(BATCH_TIMEOUT_MS);
    const row = await runner.runForOnlyRow<{ deleted: string }>(statement, values, budget);
    const deleted = Number(row.deleted);
    total += deleted;
    if (deleted < batchSize) break;
    await pause(pauseMs, signal);
  }
  return total;
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
