import type { LeaseLossReason } from './events.js';
import type { ExtendReply, IdempotencyStore } from './idempotency-store.js';
import { unfinishedRetentionMs, type ResolvedProtocolOptions } from './options.js';
import { monotonicNow } from './pause.js';
import type { Lease } from './record.js';

/** Who is told what becomes of the lease. */
export interface LeaseObserver {
  leaseLost(reason: LeaseLossReason): void;
  /** Half of `maxExecutionMs` is used up. */
  slow(elapsedMs: number): void;
}

/** How many heartbeats fit into a lease: two may fail before it runs out. */
const HEARTBEATS_PER_LEASE = 3;

/**
 * Keeps one attempt's lease alive while its operation runs (protocol, rules 1 and 2): a heartbeat at a
 * third of the lease, one in flight, none beyond the hard deadline. The lease counts from the instant
 * **before** the command that won it was sent, by the monotonic clock. One timer, never a reason for the
 * process to stay alive.
 */
export class LeaseKeeper {
  private timer: NodeJS.Timeout | undefined;
  private readonly deadlineAt: number;
  private leaseOverAt: number;
  private heartbeatAt: number;
  private slowAt: number;
  private inFlight = false;
  private beating = true;
  private loss: LeaseLossReason | undefined;
  private abortion: AbortController | undefined;

  /** @param startedAt - monotonic, before begin was sent for the first time. */
  constructor(
    private readonly store: IdempotencyStore,
    private readonly lease: Lease,
    private readonly options: ResolvedProtocolOptions,
    private readonly startedAt: number,
    private readonly observer: LeaseObserver,
  ) {
    this.deadlineAt = startedAt + options.maxExecutionMs;
    this.slowAt = startedAt + options.maxExecutionMs / 2;
    this.leaseOverAt = Math.min(startedAt + options.leaseMs, this.deadlineAt);
    this.heartbeatAt = startedAt + options.leaseMs / HEARTBEATS_PER_LEASE;
    this.arm();
  }

  /** Aborted, with the {@link LeaseLossReason} as its reason, once the lease no longer counts. */
  get signal(): AbortSignal {
    // Most operations never ask for it, and the controller costs more than all else in here.
    this.abortion ??= new AbortController();
    if (this.loss !== undefined) this.abortion.abort(this.loss);
    return this.abortion.signal;
  }

  /** Monotonic instant of the hard deadline. */
  get hardDeadlineAt(): number {
    return this.deadlineAt;
  }

  /** Ends heartbeats and watch; the attempt is settled. */
  stop(): void {
    this.beating = false;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private arm(): void {
    if (!this.beating) return;
    const next = Math.min(
      this.inFlight ? Infinity : this.heartbeatAt,
      this.loss === undefined ? this.leaseOverAt : Infinity,
      this.slowAt,
      this.deadlineAt,
    );
    clearTimeout(this.timer);
    this.timer = setTimeout(wake, Math.max(0, next - monotonicNow()), this);
    this.timer.unref();
  }

  /** @internal Called by the timer. */
  onTimer(): void {
    const now = monotonicNow();
    if (now >= this.slowAt) {
      this.slowAt = Infinity;
      this.observer.slow(now - this.startedAt);
    }
    if (now >= this.deadlineAt) {
      this.lose('max_execution');
      this.stop();
      return;
    }
    // Nobody may have taken it yet: go on with the heartbeat, so that nobody does while the operation runs.
    if (now >= this.leaseOverAt) this.lose('expired');
    if (now >= this.heartbeatAt && !this.inFlight) void this.beat(now);
    this.arm();
  }

  private async beat(sentAt: number): Promise<void> {
    this.inFlight = true;
    try {
      const { leaseMs, maxExecutionMs, commandTimeoutMs } = this.options;
      const reply = await this.store.extend(this.lease, {
        leaseMs,
        recordRetentionMs: unfinishedRetentionMs(this.options) + maxExecutionMs,
        timeoutMs: commandTimeoutMs,
      });
      this.accept(reply, sentAt);
    } catch {
      // The next heartbeat is the retry: sooner than usual, for the lease is running out.
      this.heartbeatAt = monotonicNow() + this.options.leaseMs / (HEARTBEATS_PER_LEASE * 4);
    } finally {
      this.inFlight = false;
      this.arm();
    }
  }

  private accept({ kind }: ExtendReply, sentAt: number): void {
    switch (kind) {
      case 'ok':
      case 'revived':
        this.leaseOverAt = Math.min(sentAt + this.options.leaseMs, this.deadlineAt);
        this.heartbeatAt = sentAt + this.options.leaseMs / HEARTBEATS_PER_LEASE;
        return;
      case 'not_in_progress':
        // The attempt's own complete or release has been executed, though its reply may still be out.
        this.stop();
        return;
      default:
        // A heartbeat answered after the attempt was settled has nothing to tell any more.
        if (this.beating) this.lose(kind);
        this.stop();
    }
  }

  private lose(reason: LeaseLossReason): void {
    if (this.loss !== undefined && this.loss !== 'expired') return;
    if (this.loss === reason) return;
    this.loss = reason;
    this.abortion?.abort(reason);
    this.observer.leaseLost(reason);
  }
}

function wake(keeper: LeaseKeeper): void {
  keeper.onTimer();
}
