import type { Lease } from '../../../core/record/record.js';
import type {
  TransactionalCompletion,
  TransactionalRecords,
} from '../../../core/store/transactional-records.js';
import type { OpenTransaction } from '../../../core/transaction/unit-of-work.js';
import { StoreConfigurationError } from '../../../core/errors/errors.js';
import {
  isMysqlTransaction,
  type MysqlTransaction,
} from '../../../transactions/shared/mysql-transaction.js';
import { hasErrorNumber } from '../../../transactions/shared/mysql-errors.js';
import { recordKeyBytes } from '../../shared/record-values.js';
import { MysqlDeadline } from '../connection/deadline.js';
import type { Send } from '../connection/on-connection.js';
import type { MysqlStatements } from '../sql/sql-statements.js';
import { completionValues, newVersion } from './record-row.js';
import type { MysqlRecordTable } from './record-table.js';
import { readOn } from './statement-runner.js';

type Command<Method extends keyof TransactionalRecords> =
  Parameters<TransactionalRecords[Method]> extends [...unknown[], infer Last] ? Last : never;

/** Ends with the transaction: without it, this is another one. */
const SAVEPOINT = 'nestjs_idempotency_attempt';
const NO_SAVEPOINT: ReadonlySet<number> = new Set([1305]);
const UNLOCK_TIMEOUT_MS = 1_000;

/**
 * Statements in the application's transactions, over its connections. The row of the record is not locked before the end:
 * a duplicate would wait for it. An attempt is known to run by a row of its own, which its transaction never commits.
 */
export class MysqlRecordsInTransaction implements TransactionalRecords {
  constructor(
    private readonly statements: MysqlStatements,
    private readonly table: MysqlRecordTable,
  ) {}

  async lock(
    transaction: OpenTransaction,
    lease: Lease,
    { maxExecutionMs }: Command<'lock'>,
  ): Promise<boolean> {
    const mysql = mysqlOf(transaction);
    const { recordKey, token, fence } = lease;
    const key = recordKeyBytes(recordKey);
    await mysql.execute(`SAVEPOINT ${SAVEPOINT}`);
    await mysql.execute(this.statements.lock, [key, token, maxExecutionMs]);
    return this.finds(mysql, this.statements['is-own'], [key, token, fence]);
  }

  async complete(
    transaction: OpenTransaction,
    lease: Lease,
    command: Command<'complete'>,
  ): Promise<TransactionalCompletion> {
    const mysql = mysqlOf(transaction);
    const key = recordKeyBytes(lease.recordKey);
    if (!(await this.isSame(mysql))) return this.endOf(lease);
    const version = newVersion();
    const values = completionValues(lease, version, command);
    await mysql.execute(this.statements['complete-in-transaction'], values);
    await mysql.execute(this.statements.unlock, [key, lease.token]);
    const isStored = await this.finds(mysql, this.statements['has-version'], [key, version]);
    return isStored ? 'stored' : 'lost';
  }

  async ended({ recordKey, token }: Lease, { timeoutMs }: Command<'ended'>): Promise<void> {
    const deadline = new MysqlDeadline(timeoutMs);
    while (await this.table.isLocked(recordKey, token, deadline)) await deadline.nextRound();
  }

  committed(): void {
    // Duplicates poll: the server has no notifications.
  }

  /** Whether this is the transaction in which the attempt was locked. */
  private async isSame(mysql: MysqlTransaction): Promise<boolean> {
    try {
      await mysql.execute(`RELEASE SAVEPOINT ${SAVEPOINT}`);
      return true;
    } catch (error) {
      if (!hasErrorNumber(error, NO_SAVEPOINT)) throw error;
      return false;
    }
  }

  /** How the application has ended it: if it has committed, the row of the attempt is there to stay. */
  private async endOf(lease: Lease): Promise<'committed' | 'lost'> {
    const deadline = new MysqlDeadline(UNLOCK_TIMEOUT_MS);
    if (!(await this.table.isLocked(lease.recordKey, lease.token, deadline))) return 'lost';
    await this.table.unlock(lease, deadline);
    return 'committed';
  }

  private async finds(
    mysql: MysqlTransaction,
    sql: string,
    values: Parameters<typeof readOn>[2],
  ): Promise<boolean> {
    const send: Send = async (text, sent) => {
      const rows = await mysql.execute(text, sent);
      return { rows: rows as Awaited<ReturnType<Send>>['rows'], insertId: 0 };
    };
    try {
      const [row] = await readOn(send, sql, values);
      return Number(row?.found) > 0;
    } catch (error) {
      // Its next user would receive the replies of this transaction.
      if (!hasErrorNumber(error, undefined)) mysql.cut?.();
      throw error;
    }
  }
}

/** @throws {@link StoreConfigurationError} if it is of another database. */
function mysqlOf(transaction: OpenTransaction): MysqlTransaction {
  if (isMysqlTransaction(transaction)) return transaction;
  throw new StoreConfigurationError(
    'The transactions of "unitOfWork" have no execute(), which MySQL needs: use mysql2UnitOfWork of nestjs-idempotency/mysql2, or extend MysqlUnitOfWork.',
  );
}
