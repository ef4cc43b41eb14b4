import { hasCode, asError } from '../../../core/errors/errors.js';
import {
  isExecutor,
  NoConnectionError,
  type PostgresConnections,
  type PostgresExecutor,
} from '../../../transactions/shared/connections.js';
import type { Deadline } from '../connection/deadline.js';
import {
  classifyFailure,
  describeFailure,
  isStatementMixUp,
} from '../connection/error-classification.js';
import { queryWithTimeout } from '../connection/query-with-timeout.js';
import { NoReplyError, pauseOrThrow, StoreClosedError } from '../../shared/send-failure.js';
import type { SqlStatement } from '../sql/sql-statements.js';
import type { TableName } from '../sql/table-name.js';

export type SqlValue = string | number | boolean | Buffer | null;

/** Runs single statements outside of transactions, on any free connection. */
export class StatementRunner {
  /** Stops sending, also retries of pending statements. */
  isClosed = false;

  constructor(
    private readonly pool: PostgresConnections,
    private readonly table: TableName,
    private isPrepared: boolean,
    private readonly onMismatch: (error: Error) => void,
    private readonly onUnnamed: (cause: Error) => void,
  ) {}

  /** What the application lent, if it did. */
  get executor(): PostgresExecutor | undefined {
    return isExecutor(this.pool) ? this.pool : undefined;
  }

  /**
   * Sends a statement until a reply arrives or the deadline of its command has passed. One attempt may take all of the
   * time. The next one follows only after a rejection or a lost connection.
   * @param values - without the nonce, which is new for each attempt.
   * @returns the words of the reply after the nonce, see the files in `sql/`.
   * @throws {@link StoreUnavailableError} no attempt was executed.
   * @throws {@link StoreOutcomeUnknownError} an attempt may have been executed, or may still be.
   * @throws {@link StoreReplyMismatchedError} the same: the reply belonged to another statement.
   * @throws {@link StoreConfigurationError} the server rejects it.
   */
  async run(
    statement: SqlStatement,
    values: SqlValue[],
    deadline: Deadline,
  ): Promise<readonly string[]> {
    const { name, text } = statement;
    for (let attempt = 0; ; attempt += 1) {
      const { isPrepared } = this;
      const query = isPrepared ? { name, text } : { text };
      try {
        if (this.isClosed) throw new StoreClosedError();
        return await queryWithTimeout(this.pool, query, values, Math.max(0, deadline.leftMs));
      } catch (error) {
        if (isPrepared && isStatementMixUp(error)) this.giveUpNames(asError(error));
        else await this.afterFailure(error, attempt, deadline);
      }
    }
  }

  /** For every statement from now on: the pooler switches other connections, too. */
  private giveUpNames(cause: Error): void {
    if (!this.isPrepared) return;
    this.isPrepared = false;
    this.onUnnamed(cause);
  }

  /** Pauses before the next attempt, or throws the error of the command. */
  private async afterFailure(error: unknown, attempt: number, deadline: Deadline): Promise<void> {
    if (hasCode(error, 'idempotency_store_reply_mismatched')) {
      this.onMismatch(asError(error));
      throw error;
    }
    const cause = this.reasonOf(error, deadline);
    await pauseOrThrow(classifyFailure(error), cause, attempt, deadline);
  }

  /** The failure before a timeout is more specific. */
  private reasonOf(error: unknown, deadline: Deadline): string {
    const { lastReason } = deadline;
    if (lastReason !== undefined) {
      if (error instanceof NoReplyError) return `${error.message}, after: ${lastReason}`;
      if (error instanceof NoConnectionError && error.cause === undefined) return lastReason;
    }
    return (deadline.lastReason = describeFailure(error, this.table));
  }
}
