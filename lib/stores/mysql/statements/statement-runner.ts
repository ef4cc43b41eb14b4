import {
  asError,
  hasCode,
  isIdempotencyError,
  StoreReplyMismatchedError,
} from '../../../core/errors/errors.js';
import { newNonce } from '../../../core/util/nonce.js';
import {
  isMysqlExecutor,
  NoMysqlConnectionError,
  type MysqlConnections,
  type MysqlExecutor,
  type MysqlValue,
} from '../../../transactions/shared/mysql-connections.js';
import { NoReplyError, pauseOrThrow, StoreClosedError } from '../../shared/send-failure.js';
import type { MysqlDeadline } from '../connection/deadline.js';
import { classifyMysqlFailure, describeMysqlFailure } from '../connection/error-classification.js';
import { onConnection, type MysqlRow, type Send } from '../connection/on-connection.js';
import type { MysqlTable } from '../sql/table-name.js';

/** Runs statements outside of transactions, on any free connection. */
export class MysqlRunner {
  /** Stops sending, also retries of pending statements. */
  isClosed = false;

  constructor(
    private readonly pool: MysqlConnections,
    private readonly table: MysqlTable,
    private readonly onMismatch: (error: Error) => void,
  ) {}

  /** What the application lent, if it did. */
  get executor(): MysqlExecutor | undefined {
    return isMysqlExecutor(this.pool) ? this.pool : undefined;
  }

  /**
   * Sends statements over one connection until they have their replies or the deadline of their command has passed. One
   * attempt may take all of the time. The next one follows only after a rejection or a lost connection.
   * @throws {@link StoreUnavailableError} no attempt was executed.
   * @throws {@link StoreOutcomeUnknownError} an attempt may have been executed, or may still be.
   * @throws {@link StoreReplyMismatchedError} the same: a reply belonged to another statement.
   * @throws {@link StoreConfigurationError} the server rejects it.
   */
  async run<Result>(
    deadline: MysqlDeadline,
    use: (send: Send) => Promise<Result>,
  ): Promise<Result> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        if (this.isClosed) throw new StoreClosedError();
        return await onConnection(this.pool, Math.max(0, deadline.leftMs), use);
      } catch (error) {
        if (hasCode(error, 'idempotency_store_reply_mismatched')) {
          this.onMismatch(asError(error));
          throw error;
        }
        // Of who has read the reply.
        if (isIdempotencyError(error)) throw error;
        const cause = this.reasonOf(error, deadline);
        await pauseOrThrow(classifyMysqlFailure(error), cause, attempt, deadline);
      }
    }
  }

  /** Sends a write. @returns the insert ID that it set; 0: none. */
  write(deadline: MysqlDeadline, sql: string, values: readonly MysqlValue[]): Promise<number> {
    return this.run(deadline, async (send) => (await send(sql, values)).insertId);
  }

  /** Sends a read whose first value is a nonce. */
  read(
    deadline: MysqlDeadline,
    sql: string,
    values: readonly MysqlValue[],
  ): Promise<readonly MysqlRow[]> {
    return this.run(deadline, (send) => readOn(send, sql, values));
  }

  /** The failure before a timeout is more specific. */
  private reasonOf(error: unknown, deadline: MysqlDeadline): string {
    const { lastReason } = deadline;
    if (lastReason !== undefined) {
      if (error instanceof NoReplyError) return `${error.message}, after: ${lastReason}`;
      if (error instanceof NoMysqlConnectionError && error.cause === undefined) return lastReason;
    }
    return (deadline.lastReason = describeMysqlFailure(error, this.table));
  }
}

/**
 * Sends a read whose first value is a nonce, which each row of its reply shows.
 * @throws {@link StoreReplyMismatchedError} the reply belonged to another statement.
 */
export async function readOn(
  send: Send,
  sql: string,
  values: readonly MysqlValue[],
): Promise<readonly MysqlRow[]> {
  const nonce = newNonce();
  const { rows } = await send(sql, [nonce, ...values]);
  if (rows.length === 0 || rows.some((row) => textOf(row.nonce) !== nonce)) {
    throw new StoreReplyMismatchedError('MySQL');
  }
  return rows;
}

/** Text, also where the driver leaves bytes as they are. */
export function textOf(value: unknown): string | undefined {
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  return typeof value === 'string' ? value : undefined;
}
