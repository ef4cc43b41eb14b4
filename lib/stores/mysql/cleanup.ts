import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { deleteInBatches, type DeleteExpired, type DeletionRound } from '../shared/deletion.js';
import { MysqlDeadline } from './connection/deadline.js';
import type { Send } from './connection/on-connection.js';
import type { MysqlStatements } from './sql/sql-statements.js';
import { NOW_US } from './sql/sql-statements.js';
import type { MysqlTable } from './sql/table-name.js';
import { bytesOf } from './statements/record-row.js';
import { readOn, type MysqlRunner } from './statements/statement-runner.js';

const BATCH_TIMEOUT_MS = 10_000;

/** What the deletion needs of its store. */
interface Subject {
  readonly runner: MysqlRunner;
  readonly table: MysqlTable;
  readonly statements: MysqlStatements;
}

/**
 * Deletes until no expired record is left, or another process is deleting. The keys are read without locks and deleted one
 * by one, by the primary key: a range would also lock the gaps between rows, where others insert.
 * @param from - milliseconds of the server's clock: skips records that expired earlier. 0 for all.
 * @param onDeleted - called with the number of records of each batch.
 */
export function deleteExpired(
  subject: Subject,
  options: DeleteExpired,
  from: number,
  onDeleted: (records: number) => void,
): Promise<DeletionRound> {
  const { runner, table } = subject;
  const lock = table.lockName('deletion');
  const deleteBatch = (batchSize: number, reached: number) =>
    runner.run(new MysqlDeadline(BATCH_TIMEOUT_MS), async (send) => {
      const [locked] = await readOn(send, `SELECT ? AS nonce, GET_LOCK(${lock}, 0) AS got`, []);
      if (Number(locked?.got) !== 1) return undefined;
      try {
        return await deleteOn(send, subject, batchSize, reached);
      } finally {
        await readOn(send, `SELECT ? AS nonce, RELEASE_LOCK(${lock}) AS released`, []);
      }
    });
  return deleteInBatches(options, from, deleteBatch, onDeleted);
}

async function deleteOn(
  send: Send,
  { statements, table }: Subject,
  batchSize: number,
  from: number,
) {
  const rows = await readOn(send, statements.expired, [from, batchSize]);
  const found = rows.filter((row) => row.record_key !== null);
  const last = found.at(-1);
  if (last !== undefined) {
    const keys = found.map((row) => `x'${bytesOf(row.record_key).toString('hex')}'`).join(', ');
    // What has been taken over meanwhile has not expired.
    const expired = `expires_at <= ${NOW_US} DIV 1000`;
    await send(
      `DELETE FROM ${table.quoted} WHERE record_key IN (${keys}) AND ${expired}`,
      [],
      true,
    );
  }
  await send(statements['delete-locks'], [batchSize]);
  return {
    deleted: found.length,
    isLast: found.length < batchSize,
    reached: last && Number(last.expires_at),
  };
}

export function deletionFailed({ message }: Error): StoreWarning {
  return { code: 'mysql_deletion_failed', message: `Expired records are not deleted: ${message}` };
}
