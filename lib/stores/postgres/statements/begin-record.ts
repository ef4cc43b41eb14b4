import type { Begin, BeginReply } from '../../../core/store/idempotency-store.js';
import * as transitions from '../../../core/store/record-transitions.js';
import { nodeClock } from '../../../core/util/clock.js';
import { jitteredPause } from '../../../core/util/time.js';
import type { Deadline } from '../connection/deadline.js';
import type { RecordTable } from './record-table.js';

/** A transactional attempt that rolled back releases its record in a separate statement. */
const ROLLED_BACK_PAUSE_MS = 50;

/**
 * Inserts the record or reads it, in one statement. The state machine evaluates what was read. Only if the record is to
 * change, a second, conditional statement follows. If the record has changed by then, begin starts over.
 */
export async function beginRecord(
  table: RecordTable,
  command: Begin,
  deadline: Deadline,
): Promise<BeginReply> {
  let timesLocked = 0;
  let timesFree = 0;
  for (;;) {
    const begun = await table.insertOrRead(command, deadline);
    if (begun !== undefined && 'inserted' in begun) {
      const fence = begun.inserted;
      const now = Math.floor(fence / 1000);
      return { kind: 'acquired', fence, now, attempt: 1, takeovers: 0 };
    }
    const { nowUs, record } = begun ?? (await table.read(command.recordKey, deadline));
    const { reply, record: after } = transitions.begin(record, command, nowUs);
    if (after === record && reply.kind !== 'abandoned') return reply;
    switch (record && reply.kind) {
      case 'abandoned':
        if (await table.isFree(command.recordKey, record?.fence ?? 0, deadline)) {
          timesFree += 1;
          if (timesFree > 1) return reply;
          await jitteredPause(ROLLED_BACK_PAUSE_MS, nodeClock);
        } else {
          timesLocked += 1;
        }
        break;
      case 'owned': {
        // Whatever the outcome of this statement, the record belongs to this attempt.
        deadline.mayHaveRun = true;
        const renewed = await table.renew(command, deadline);
        if (renewed !== undefined) return { kind: 'owned', ...renewed };
        break;
      }
      case 'in_progress':
        await table.clamp(command.recordKey, record?.fence ?? 0, deadline);
        return reply;
      case 'acquired':
      case 'takeover': {
        const acquired = await table.acquire(command, deadline);
        if (acquired !== undefined) {
          const { how, ...acquisition } = acquired;
          return { kind: how === 'abandoned' ? 'takeover' : 'acquired', ...acquisition };
        }
        if (reply.kind === 'takeover') timesLocked += 1;
        break;
      }
      default:
      // A concurrent begin inserted the record after this one's snapshot.
    }
    // Its row stays locked: a transactional attempt is running.
    if (timesLocked > 1) {
      return transitions.withNote({ kind: 'in_progress', leaseLeftMs: 0 }, record?.note);
    }
    await deadline.nextRound({ record });
  }
}
