import type * as Store from '../record/commands.js';
import type { Lease, RecordKey, StoredRecord } from '../record/record.js';
import { IdempotencyStore } from './idempotency-store.js';
import * as transitions from './record-transitions.js';

/** What a step decides about the record as it was read. */
export type Decide<Reply> = (
  record: StoredRecord | undefined,
  nowUs: number,
) => transitions.Transition<Reply>;

/** What a step needs to know of its command. */
export interface StepCommand {
  readonly timeoutMs: number;
  readonly notify?: boolean | undefined;
}

/** A store that executes a step as {@link transitions} decide: it reads the record, and writes what was decided. */
export abstract class TransitionStore extends IdempotencyStore {
  /** Executes one step, atomically. @internal */
  protected abstract step<Reply>(
    recordKey: RecordKey,
    command: StepCommand,
    decide: Decide<Reply>,
  ): Promise<Reply>;

  override begin(command: Store.Begin): Promise<Store.BeginReply> {
    return this.step(command.recordKey, command, (record, nowUs) =>
      transitions.begin(record, command, nowUs),
    );
  }

  override extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    return this.step(lease.recordKey, command, (record, nowUs) =>
      transitions.extend(record, lease, command, nowUs),
    );
  }

  override complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    return this.step(lease.recordKey, command, (record, nowUs) =>
      transitions.complete(record, lease, command, nowUs),
    );
  }

  override release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    return this.step(lease.recordKey, command, (record, nowUs) =>
      transitions.release(record, lease, command, nowUs),
    );
  }

  override amend(command: Store.Amend): Promise<Store.AmendReply> {
    return this.step(command.recordKey, command, (record, nowUs) =>
      transitions.amend(record, command, nowUs),
    );
  }
}
