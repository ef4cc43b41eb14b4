import type { Begin, BeginReply } from '../../../core/record/commands.js';
import { compareAndSet } from '../../../core/store/compare-and-set.js';
import * as transitions from '../../../core/store/record-transitions.js';
import type { MysqlDeadline } from '../connection/deadline.js';
import type { LoadedRow } from './record-row.js';
import type { MysqlRecordTable } from './record-table.js';

/**
 * Inserts the record of a first attempt in one statement. If there is one, reads it, and writes it only if it has not
 * changed since. An attempt whose transaction is open keeps its record, however long ago its lease expired.
 */
export async function beginRecord(
  table: MysqlRecordTable,
  command: Begin,
  deadline: MysqlDeadline,
): Promise<BeginReply> {
  const { recordKey } = command;
  const inserted = await table.insert(command, deadline);
  if (inserted !== undefined) return { kind: 'acquired', ...inserted };
  const running = async ({ record }: LoadedRow): Promise<BeginReply | undefined> => {
    if (record === undefined || !(await table.isLocked(recordKey, record.token, deadline))) {
      return undefined;
    }
    return transitions.withNote({ kind: 'in_progress', leaseLeftMs: 0 } as const, record.note);
  };
  return compareAndSet<BeginReply, LoadedRow>({
    read: () => table.read(recordKey, deadline),
    decide: (record, nowUs) => transitions.begin(record, command, nowUs),
    confirm: async ({ kind }, read) =>
      kind === 'abandoned' ? ((await running(read)) ?? true) : true,
    async write({ reply, record }, read) {
      if (read.record === undefined) {
        // Its fence has to be later than that of a record that was deleted meanwhile.
        const acquired = await table.insert(command, deadline);
        return acquired !== undefined && { kind: 'acquired', ...acquired };
      }
      if (reply.kind === 'takeover') {
        const reply = await running(read);
        if (reply !== undefined) return reply;
      }
      // Whatever the outcome of this statement, the record belongs to this attempt.
      if (reply.kind === 'owned') deadline.mayHaveRun = true;
      return table.save(recordKey, read, record, deadline);
    },
    again: ({ record }) => deadline.nextRound({ record }),
  });
}
