import type {
  Lease,
  Begin,
  BeginReply,
  ExtendReply,
} from '../../../test/support/internals/core.js';

interface KnownLease {
  until: number;
  readonly deadline: number;
  /** When the reply to begin was read. */
  readonly knownAt: number;
}

/**
 * Until when the attempts of a process may rely on their leases, by what was sent and replied, and not by the engine.
 * Times are of the process' monotonic clock.
 */
export class LeaseBook {
  private readonly firstSent = new Map<string, number>();
  /** Tokens whose begin was late, and is sent once more. */
  private readonly late = new Set<string>();
  private readonly begins = new WeakMap<Begin, number>();
  private readonly leases = new Map<string, KnownLease>();

  sent(begin: Begin, now: number): void {
    this.begins.set(begin, now);
    if (!this.firstSent.has(begin.token)) this.firstSent.set(begin.token, now);
  }

  /** @returns `undefined` for one of another process. */
  sentAt(begin: Begin): number | undefined {
    return this.begins.get(begin);
  }

  begun(
    { recordKey, token, leaseMs, maxExecutionMs }: Begin,
    reply: BeginReply,
    now: number,
  ): void {
    const sentAt = this.firstSent.get(token)!;
    // The same begin is sent once more, and its lease counts from the first time. Late twice, it has failed.
    if (reply.kind === 'late' && !this.late.has(token)) {
      this.late.add(token);
      return;
    }
    this.failed({ token });
    if (reply.kind !== 'acquired' && reply.kind !== 'takeover' && reply.kind !== 'owned') return;
    this.leases.set(nameOf(recordKey, reply.fence), {
      until: sentAt + leaseMs,
      deadline: sentAt + maxExecutionMs,
      knownAt: now,
    });
  }

  /** A waiting duplicate sends it again with the same token. */
  failed({ token }: Pick<Begin, 'token'>): void {
    this.firstSent.delete(token);
    this.late.delete(token);
  }

  extended({ recordKey, fence }: Lease, { kind }: ExtendReply, until: number): void {
    const lease = this.leases.get(nameOf(recordKey, fence));
    if (lease === undefined || (kind !== 'ok' && kind !== 'revived')) return;
    lease.until = Math.max(lease.until, until);
  }

  /** @returns `undefined` for an attempt that never had one. */
  of(recordKey: string, fence: number): Readonly<KnownLease> | undefined {
    return this.leases.get(nameOf(recordKey, fence));
  }

  until(recordKey: string, fence: number): number | undefined {
    const lease = this.of(recordKey, fence);
    return lease && Math.min(lease.until, lease.deadline);
  }
}

function nameOf(recordKey: string, fence: number): string {
  return `${recordKey} ${fence}`;
}
