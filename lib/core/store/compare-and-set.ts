import type { StoredRecord } from '../record/record.js';
import type { Transition } from './record-transitions.js';

/** A record and the store's clock, in microseconds, as they were read together. */
export interface RecordSnapshot {
  readonly nowUs: number;
  readonly record: StoredRecord | undefined;
}

/** The parts of one step. What decides by `false` that the record has changed may also return another reply. */
export interface CompareAndSet<Reply, Snapshot extends RecordSnapshot = RecordSnapshot> {
  read(): Promise<Snapshot>;

  decide(record: StoredRecord | undefined, nowUs: number): Transition<Reply>;

  /** Writes what was decided, if the record is still as it was read. */
  write(
    decided: { readonly reply: Reply; readonly record: StoredRecord },
    snapshot: Snapshot,
  ): Promise<boolean | Reply>;

  /** Whether a decision that changes nothing holds. @defaultValue it does */
  confirm?(reply: Reply, snapshot: Snapshot): Promise<boolean | Reply>;

  /** Called before the record is read again. Throws when there is no time left. */
  again(snapshot: Snapshot): Promise<void>;
}

/** Executes one step of the state machine on a database whose writes can depend on what was read before. */
export async function compareAndSet<Reply, Snapshot extends RecordSnapshot>(
  step: CompareAndSet<Reply, Snapshot>,
): Promise<Reply> {
  for (;;) {
    const snapshot = await step.read();
    const { reply, record } = step.decide(snapshot.record, snapshot.nowUs);
    const isChange = record !== undefined && record !== snapshot.record;
    const result = isChange
      ? await step.write({ reply, record }, snapshot)
      : ((await step.confirm?.(reply, snapshot)) ?? true);
    if (result === true) return reply;
    if (result !== false) return result;
    await step.again(snapshot);
  }
}
