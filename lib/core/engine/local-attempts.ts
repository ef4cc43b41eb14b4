import { UNKNOWN_FENCE, type RecordKey } from '../record/record.js';
import { monotonicNow } from '../util/time.js';

/** A begin that this process has sent, or the attempt that came of it. */
export interface LocalAttempt {
  readonly recordKey: RecordKey;
  /** {@link UNKNOWN_FENCE} where no reply has told it. */
  readonly fence: number;
  /** Monotonic: past its hard deadline an attempt loses its key, whoever runs it. */
  readonly deadlineAt: number;
  /** Monotonic: a lease of its own cannot be over before. */
  readonly leaseOverAt: number;
  /** The operation is over, and its outcome on the way to the store. */
  isSettling: boolean;
}

/**
 * What this process has under way, by record key, which it must not take over (protocol, rule 8). A begin counts from
 * the instant at which it is sent: after a blocked event loop, a duplicate's begin is sent before the first one's
 * reply is read.
 */
export class LocalAttempts {
  private readonly byKey = new Map<RecordKey, Set<LocalAttempt>>();

  add(own: LocalAttempt): LocalAttempt {
    const known = this.byKey.get(own.recordKey);
    if (known === undefined) this.byKey.set(own.recordKey, new Set([own]));
    else known.add(own);
    return own;
  }

  remove(own: LocalAttempt): void {
    const known = this.byKey.get(own.recordKey);
    known?.delete(own);
    if (known?.size === 0) this.byKey.delete(own.recordKey);
  }

  /**
   * Whether anything is under way for the key.
   *
   * @param hasRecovery - by whoever takes over: what an operation that is over has done can be found, and is not done again.
   */
  has(recordKey: RecordKey, hasRecovery: boolean): boolean {
    return this.some(recordKey, hasRecovery, () => true);
  }

  /**
   * Whether something that is under way holds the record with this fencing token, whose lease is over, or may hold it. A
   * begin that was sent a moment ago cannot: should each of those that overlap excuse the next, nobody would ever take a
   * dead process' record over.
   */
  mayHold(recordKey: RecordKey, hasRecovery: boolean, fence: number): boolean {
    const now = monotonicNow();
    const isAffected = (own: LocalAttempt) =>
      own.fence === fence || (own.fence === UNKNOWN_FENCE && now >= own.leaseOverAt);
    return this.some(recordKey, hasRecovery, isAffected);
  }

  private some(
    recordKey: RecordKey,
    hasRecovery: boolean,
    isAffected: (own: LocalAttempt) => boolean,
  ): boolean {
    const now = monotonicNow();
    for (const own of this.byKey.get(recordKey) ?? []) {
      const counts = now < own.deadlineAt && !(hasRecovery && own.isSettling);
      if (counts && isAffected(own)) return true;
    }
    return false;
  }
}
