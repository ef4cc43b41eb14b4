import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { deleteInBatches, type DeleteExpired, type DeletionRound } from '../../shared/deletion.js';
import { Deadline } from '../connection/deadline.js';
import type { SqlStatement } from '../sql/sql-statements.js';
import type { TableName } from '../sql/table-name.js';
import type { StatementRunner } from '../statements/statement-runner.js';

const BATCH_TIMEOUT_MS = 10_000;
/** The server takes 2 to 6 ms per MiB. */
const BATCH_BYTES = 4 * 1024 * 1024;

/**
 * Deletes until no expired record is left, or another process is deleting.
 * @param from - seconds of the server's clock: skips records that expired earlier. 0 for all.
 * @param onDeleted - called with the number of records of each batch.
 */
export function deleteExpired(
  runner: StatementRunner,
  statement: SqlStatement,
  table: TableName,
  options: DeleteExpired,
  from: number,
  onDeleted: (records: number) => void,
): Promise<DeletionRound> {
  const lock = table.advisoryLock('deletion');
  const deleteBatch = async (batchSize: number, reached: number) => {
    const values = [batchSize, lock, reached, BATCH_BYTES];
    const reply = await runner.run(statement, values, new Deadline(BATCH_TIMEOUT_MS));
    const [mine, deleted, isLast, next] = reply;
    if (mine === 'f') return undefined;
    return {
      deleted: Number(deleted),
      isLast: isLast === 't',
      reached: next === undefined ? undefined : Number(next),
    };
  };
  return deleteInBatches(options, from, deleteBatch, onDeleted);
}

export function deletionFailed({ message }: Error): StoreWarning {
  return {
    code: 'postgres_deletion_failed',
    message: `Expired records are not deleted: ${message}`,
  };
}
