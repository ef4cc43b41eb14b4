import { UnitOfWork, type TransactionOptions } from '../../core/transaction/unit-of-work.js';
import type { IdempotencyErrorCode } from '../../core/errors/errors.js';
import { hasSqlState } from './sql-state.js';
import type { SqlTransaction } from './sql-transaction.js';

/**
 * A unit of work on PostgreSQL. It finds the SQLSTATE of an error, also within an error of the library. A custom adapter
 * implements `run`.
 */
export abstract class PostgresUnitOfWork<Handle = unknown> extends UnitOfWork<Handle> {
  /** @inheritdoc */
  abstract override run<Result>(
    options: TransactionOptions,
    work: (transaction: SqlTransaction<Handle>) => Promise<Result>,
  ): Promise<Result>;

  /** Serialization failure (SQLSTATE 40001) or deadlock (40P01). */
  isConflict(error: unknown): boolean {
    return hasSqlState(error, CONFLICTS);
  }

  isInterruption(error: unknown): boolean {
    return hasSqlState(error, INTERRUPTIONS);
  }

  isReplyMismatch(error: unknown): boolean {
    return hasSqlState(error, MISMATCHED);
  }
}

/** Connection errors and terminations; transaction and idle-in-transaction timeouts. */
const INTERRUPTIONS: ReadonlySet<string> = new Set([
  ...['08000', '08001', '08003', '08004', '08006', '08007', '57P01', '57P02', '57P03', '57P05'],
  ...['25P03', '25P04'],
]);

const CONFLICTS: ReadonlySet<string> = new Set(['40001', '40P01']);

const MISMATCHED: ReadonlySet<IdempotencyErrorCode> = new Set([
  'idempotency_store_reply_mismatched',
]);
