import {
  IdempotencyStore,
  type Begin,
  type Complete,
  type Extend,
  type Release,
} from '../../../lib/core/idempotency-store.js';
import * as transitions from '../../../lib/core/record-transitions.js';
import type { Lease, StoredRecord } from '../../../lib/core/record.js';

/** One record, as the reference state machine has it, behind the port. */
export class ReferenceStore extends IdempotencyStore {
  /** The store's clock, in microseconds. */
  nowUs = 0;
  record: StoredRecord | undefined;
  asked = 0;

  override async begin(command: Begin) {
    this.asked += 1;
    return this.take(transitions.begin(this.record, command, this.nowUs));
  }

  override async extend(lease: Lease, command: Extend) {
    return this.take(transitions.extend(this.record, lease, command, this.nowUs));
  }

  override async complete(lease: Lease, command: Complete) {
    return this.take(transitions.complete(this.record, lease, command, this.nowUs));
  }

  override async release(lease: Lease, command: Release) {
    return this.take(transitions.release(this.record, lease, command, this.nowUs));
  }

  override async inspect() {
    return transitions.inspect(this.record, this.nowUs);
  }

  override async close() {
    this.record = undefined;
  }

  private take<Reply>({ reply, record }: transitions.Transition<Reply>): Reply {
    this.record = record;
    return reply;
  }
}
