import { UNKNOWN_FENCE, type RecordKey } from '../record/record.js';
import { monotonicNow } from '../util/time.js';

/** A begin that this process has sent, or its attempt. */
export interface LocalAttempt {
  readonly recordKey: RecordKey;
  /** {@link UNKNOWN_FENCE} before the reply. */
  readonly fence: number;
  /** Monotonic. At its hard deadline an attempt loses its key, also to this process. */
  readonly deadlineAt: number;
  /** Monotonic. Its own lease cannot expire earlier. */
  readonly leaseOverAt: number;
  isSettling: boolean;
}

/**
 * The attempts of this process, by record key, which it must not take over itself (protocol, rule 8). A begin counts
 * from when it is sent: after a blocked event loop, a duplicate's begin is sent before the first one's reply is read.
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

  /** Whether an attempt of the key is in progress. With `hasRecovery`, one whose operation has ended does not count. */
  has(recordKey: RecordKey, hasRecovery: boolean): boolean {
    return this.some(recordKey, hasRecovery, () => true);
  }

  /**
   * Whether an attempt in progress may hold the record with this fencing token, whose lease has expired. A begin sent a
   * moment ago does not count: else overlapping begins could defer to one another, and a dead process' record stay.
   */
  mayOwn(recordKey: RecordKey, hasRecovery: boolean, fence: number): boolean {
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
