import type { StoredRecord } from '../../../core/record/record.js';
import { compareAndSet } from '../../../core/store/compare-and-set.js';
import type { Begin, BeginReply } from '../../../core/record/commands.js';
import * as transitions from '../../../core/store/record-transitions.js';
import { nodeClock } from '../../../core/util/clock.js';
import { jitteredPause } from '../../../core/util/time.js';
import type { Deadline } from '../connection/deadline.js';
import type { BegunSnapshot, RecordTable } from './record-table.js';

/** A transactional attempt that rolled back releases its record in a separate statement. */
const ROLLED_BACK_PAUSE_MS = 50;

/**
 * Inserts the record or reads it, in one statement. Only if an existing record is to change, a second, conditional
 * statement follows. If the record has changed by then, begin starts over.
 */
export function beginRecord(
  table: RecordTable,
  command: Begin,
  deadline: Deadline,
): Promise<BeginReply> {
  let timesLocked = 0;
  let timesFree = 0;
  /** The second time, its row stays locked: a transactional attempt is running. */
  const locked = (record: StoredRecord | undefined): BeginReply | false => {
    timesLocked += 1;
    const reply = { kind: 'in_progress', leaseLeftMs: 0 } as const;
    return timesLocked > 1 && transitions.withNote(reply, record?.note);
  };
  return compareAndSet<BeginReply, BegunSnapshot>({
    read: async () =>
      (await table.insertOrRead(command, deadline)) ??
      (await table.read(command.recordKey, deadline)),
    decide: (record, nowUs) => transitions.begin(record, command, nowUs),
    async confirm(reply, { record }) {
      if (reply.kind !== 'abandoned') return true;
      if (!(await table.isFree(command.recordKey, reply.fence, deadline))) return locked(record);
      timesFree += 1;
      if (timesFree > 1) return true;
      await jitteredPause(ROLLED_BACK_PAUSE_MS, nodeClock);
      return false;
    },
    async write({ reply }, { record, isInserted = false }) {
      switch (record && reply.kind) {
        case 'owned': {
          // Whatever the outcome of this statement, the record belongs to this attempt.
          deadline.mayHaveRun = true;
          const renewed = await table.renew(command, deadline);
          return renewed === undefined ? false : { kind: 'owned', ...renewed };
        }
        case 'in_progress':
          await table.clamp(command.recordKey, record?.fence ?? 0, deadline);
          return true;
        case 'acquired':
        case 'takeover': {
          const acquired = await table.acquire(command, deadline);
          if (acquired !== undefined) {
            const { how, ...acquisition } = acquired;
            return { kind: how === 'abandoned' ? 'takeover' : 'acquired', ...acquisition };
          }
          return reply.kind === 'takeover' && locked(record);
        }
        default:
          // If it was not inserted, a concurrent begin inserted it after this one's snapshot.
          return isInserted;
      }
    },
    again: ({ record }) => deadline.nextRound({ record }),
  });
}
