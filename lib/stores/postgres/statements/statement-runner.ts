import { hasCode, asError, StoreConfigurationError } from '../../../core/util/errors.js';
import { jitteredPause } from '../../../core/util/time.js';
import type { Deadline } from '../connection/deadline.js';
import {
  classifyFailure,
  describeFailure,
  NoConnectionError,
  StoreClosedError,
} from '../connection/error-classification.js';
import type { PostgresPool } from '../connection/postgres-client.js';
import { queryWithTimeout } from '../connection/query-with-timeout.js';
import type { SqlStatement } from '../sql/sql-statements.js';
import type { TableName } from '../sql/table-name.js';

export type SqlValue = string | number | boolean | Buffer | null;

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** With less time left, one more copy would only turn "not executed" into "unknown". */
const MIN_TIME_FOR_RETRY_MS = 20;

/** Runs statements, each by itself: outside of any transaction, on whichever connection is free. */
export class StatementRunner {
  /** Sends nothing any more, nor the next copy of what is on its way. */
  isClosed = false;

  constructor(
    private readonly pool: PostgresPool,
    private readonly table: TableName,
    private readonly isPrepared: boolean,
    private readonly onMismatch: (error: Error) => void,
  ) {}

  /**
   * Sends a statement until it is answered, for as long as the budget of its command lasts.
   *
   * One copy may take all the time that is left: only when the server has refused it, or its connection is
   * lost, the next one goes out.
   *
   * @param values - without the nonce, which is new for each copy.
   * @returns the words of its reply after the nonce, see the files in `sql/`.
   * @throws {@link StoreUnavailableError} no copy was executed.
   * @throws {@link StoreOutcomeUnknownError} a copy may have been executed, or may still be.
   * @throws {@link StoreReplyMismatchedError} the same: the reply was another statement's.
   * @throws {@link StoreConfigurationError} the server refuses it.
   */
  async run(
    statement: SqlStatement,
    values: SqlValue[],
    deadline: Deadline,
  ): Promise<readonly string[]> {
    const { name, text } = statement;
    const query = this.isPrepared ? { name, text } : { text };
    for (let attempt = 0; ; attempt += 1) {
      try {
        if (this.isClosed) throw new StoreClosedError();
        return await queryWithTimeout(this.pool, query, values, Math.max(0, deadline.leftMs));
      } catch (error) {
        await this.afterFailure(error, attempt, deadline);
      }
    }
  }

  /** Waits before the next copy, or throws what the command ends with. */
  private async afterFailure(error: unknown, attempt: number, deadline: Deadline): Promise<void> {
    if (hasCode(error, 'idempotency_store_reply_mismatched')) {
      this.onMismatch(asError(error));
      throw error;
    }
    const failure = classifyFailure(error);
    const cause = this.reasonOf(error, deadline);
    if (failure === 'misconfigured') throw new StoreConfigurationError(cause);
    deadline.mayHaveRun ||= failure === 'unknown';
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
    if (failure === 'rejected' || deadline.leftMs - pauseMs < MIN_TIME_FOR_RETRY_MS) {
      throw deadline.failure(cause);
    }
    await jitteredPause(pauseMs);
  }

  /** That the time was up says less than what went wrong before. */
  private reasonOf(error: unknown, deadline: Deadline): string {
    const isTimeUp = error instanceof NoConnectionError && error.cause === undefined;
    if (isTimeUp && deadline.lastReason !== undefined) return deadline.lastReason;
    deadline.lastReason = describeFailure(error, this.table);
    return deadline.lastReason;
  }
}
