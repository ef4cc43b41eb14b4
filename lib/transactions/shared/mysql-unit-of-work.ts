import { UnitOfWork, type TransactionOptions } from '../../core/transaction/unit-of-work.js';
import type { IdempotencyErrorCode } from '../../core/errors/errors.js';
import { hasErrorNumber } from './mysql-errors.js';
import type { MysqlTransaction } from './mysql-transaction.js';
import { hasSqlState, layersOf } from './sql-state.js';

/**
 * A unit of work on MySQL or MariaDB. It finds the number of an error, also within an error of the library. A custom
 * adapter implements `run`: it rolls back after any error, since the server undoes only the statement after some.
 */
export abstract class MysqlUnitOfWork<Handle = unknown> extends UnitOfWork<Handle> {
  /** @inheritdoc */
  abstract override run<Result>(
    options: TransactionOptions,
    work: (transaction: MysqlTransaction<Handle>) => Promise<Result>,
  ): Promise<Result>;

  /** Deadlock (1213), lock wait timeout (1205), or a row that has changed since the snapshot (1020, MariaDB). */
  isConflict(error: unknown): boolean {
    return isMysqlConflict(error);
  }

  isInterruption(error: unknown): boolean {
    if (hasErrorNumber(error, INTERRUPTIONS)) return true;
    for (const { code, fatal, sqlState, state } of layersOf(error)) {
      // mysql2 calls an error fatal that has ended the connection.
      if (LOST.has(code) || fatal === true) return true;
      // Prisma has renamed it.
      if (isConnectionException(sqlState) || isConnectionException(state)) return true;
    }
    return false;
  }

  isReplyMismatch(error: unknown): boolean {
    return hasSqlState(error, MISMATCHED);
  }
}

const CONFLICTS: ReadonlySet<number> = new Set([1213, 1205, 1020]);

export function isMysqlConflict(error: unknown): boolean {
  return hasErrorNumber(error, CONFLICTS);
}

/** SQLSTATE class 08. */
function isConnectionException(state: unknown): boolean {
  return typeof state === 'string' && /^08[\dA-Z]{3}$/.test(state);
}

/** Shutdown, a killed session, a session that was idle for too long. */
const INTERRUPTIONS: ReadonlySet<number> = new Set([1053, 1927, 3169, 4031, 1317]);

/** Of the driver. */
const LOST: ReadonlySet<unknown> = new Set([
  ...['PROTOCOL_CONNECTION_LOST', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ECONNREFUSED'],
]);

const MISMATCHED: ReadonlySet<IdempotencyErrorCode> = new Set([
  'idempotency_store_reply_mismatched',
]);
