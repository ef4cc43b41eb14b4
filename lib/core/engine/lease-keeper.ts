import { AsyncResource } from 'node:async_hooks';
import { inProgressRetentionMs, type ResolvedProtocolOptions } from '../operation/options.js';
import type { LeaseLossReason } from '../record/events.js';
import type { Lease } from '../record/record.js';
import type { ExtendReply, IdempotencyStore } from '../store/idempotency-store.js';
import type { DeadlineListener, DeadlineTimer } from '../util/deadlines.js';
import { monotonicNow } from '../util/time.js';

/** Who is told what becomes of the lease. */
interface LeaseObserver {
  leaseLost(reason: LeaseLossReason): void;
  /** Half of `maxExecutionMs` is used up. */
  slow(elapsedMs: number): void;
}

/** How many heartbeats fit into a lease: two may fail before it runs out. */
const HEARTBEATS_PER_LEASE = 3;

/** The part of a lease that one heartbeat may take: one without a reply leaves time for two more. */
const HEARTBEAT_TIMEOUT_PART = 1 / 4;

/** The part of a lease after which the next heartbeat follows one that failed. */
const RETRY_PART = 1 / 12;

/** A begin whose reply took more of the lease than this has to be confirmed (protocol, rule 1). */
const UNCONFIRMED_PART = 2 / 3;

/**
 * Keeps one attempt's lease alive while its operation runs (protocol, rules 1 and 2): a heartbeat at a
 * third of the lease, one in flight, none beyond the hard deadline. The lease counts from the instant
 * **before** the command that won it was sent, by the monotonic clock.
 */
export class LeaseKeeper implements DeadlineListener {
  /** @internal */
  dueAt = Infinity;
  /** What listens to the signal, or logs an event, finds the request that it is about. */
  private readonly context = new AsyncResource('IdempotencyLease', { requireManualDestroy: true });
  private readonly deadlineAt: number;
  private leaseOverAt: number;
  private heartbeatAt: number;
  private slowAt: number;
  private inFlight = false;
  private stopped = false;
  private loss: LeaseLossReason | undefined;
  private abortion: AbortController | undefined;

  /** @param startedAt - monotonic, before begin was sent for the first time. */
  constructor(
    private readonly store: IdempotencyStore,
    private readonly lease: Lease,
    private readonly options: ResolvedProtocolOptions,
    private readonly startedAt: number,
    private readonly observer: LeaseObserver,
    private readonly deadlines: DeadlineTimer,
  ) {
    this.deadlineAt = startedAt + options.maxExecutionMs;
    this.slowAt = startedAt + options.maxExecutionMs / 2;
    this.leaseOverAt = this.leaseEndFrom(startedAt);
    this.heartbeatAt = this.heartbeatAfter(startedAt);
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

  /**
   * Begins to watch over the lease.
   *
   * @returns whether the operation may start, at once where nothing has to be asked: a begin whose reply took most of
   * the lease has to be followed by an extension that works (protocol, rule 1).
   */
  start(): boolean | Promise<boolean> {
    if (monotonicNow() - this.startedAt >= this.options.leaseMs * UNCONFIRMED_PART) {
      return this.confirm();
    }
    this.arm();
    return true;
  }

  /** Ends heartbeats and watch; the attempt is settled. */
  stop(): void {
    this.stopped = true;
    this.deadlines.cancel(this);
  }

  private async confirm(): Promise<boolean> {
    const sentAt = monotonicNow();
    try {
      const { kind } = await this.extend();
      if (kind !== 'ok') return false;
    } catch {
      return false;
    }
    this.renewed(sentAt);
    this.arm();
    return true;
  }

  private leaseEndFrom(sentAt: number): number {
    return Math.min(sentAt + this.options.leaseMs, this.deadlineAt);
  }

  private heartbeatAfter(sentAt: number): number {
    return sentAt + this.options.leaseMs / HEARTBEATS_PER_LEASE;
  }

  private renewed(sentAt: number): void {
    this.leaseOverAt = this.leaseEndFrom(sentAt);
    this.heartbeatAt = this.heartbeatAfter(sentAt);
  }

  private arm(): void {
    if (this.stopped) return;
    this.deadlines.cancel(this);
    this.dueAt = Math.min(
      this.inFlight ? Infinity : this.heartbeatAt,
      this.loss === undefined ? this.leaseOverAt : Infinity,
      this.slowAt,
      this.deadlineAt,
    );
    this.deadlines.schedule(this);
  }

  /** @internal */
  onDeadline(): void {
    this.context.runInAsyncScope(watch, undefined, this);
  }

  /** @internal */
  watch(): void {
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
    if (now >= this.leaseOverAt) {
      // After a blocked event loop timers come before input: a reply that is already here is read first.
      if (this.inFlight) setImmediate(evaluate, this);
      else this.evaluateExpiry();
    }
    // Also once it is over: nobody may have taken it yet, and nobody shall while the operation runs.
    if (now >= this.heartbeatAt && !this.inFlight) void this.beat(now);
    this.arm();
  }

  /** @internal */
  evaluateExpiry(): void {
    if (!this.stopped && monotonicNow() >= this.leaseOverAt) this.lose('expired');
  }

  private async beat(sentAt: number): Promise<void> {
    this.inFlight = true;
    try {
      this.accept(await this.extend(), sentAt);
    } catch {
      // The next heartbeat is the retry: sooner than usual, for the lease is running out.
      this.heartbeatAt = monotonicNow() + this.options.leaseMs * RETRY_PART;
    } finally {
      this.inFlight = false;
      this.arm();
    }
  }

  private async extend(): Promise<ExtendReply> {
    const { leaseMs, commandTimeoutMs } = this.options;
    return this.store.extend(this.lease, {
      leaseMs,
      recordRetentionMs: inProgressRetentionMs(this.options),
      timeoutMs: Math.min(commandTimeoutMs, Math.ceil(leaseMs * HEARTBEAT_TIMEOUT_PART)),
    });
  }

  private accept({ kind }: ExtendReply, sentAt: number): void {
    switch (kind) {
      case 'ok':
      case 'revived':
        this.renewed(sentAt);
        return;
      case 'not_in_progress':
        // The attempt's own complete or release has been executed, though its reply may still be out.
        this.stop();
        return;
      case 'lost':
      case 'gone':
      case 'max_execution':
        // A heartbeat answered after the attempt was settled has nothing to tell any more.
        if (!this.stopped) this.lose(kind);
        this.stop();
        return;
      default:
        throw new TypeError('The store gave no reply that extend knows.');
    }
  }

  private lose(reason: LeaseLossReason): void {
    if (this.loss === reason || (this.loss !== undefined && this.loss !== 'expired')) return;
    this.loss = reason;
    this.abortion?.abort(reason);
    this.observer.leaseLost(reason);
  }
}

function watch(keeper: LeaseKeeper): void {
  keeper.watch();
}

function evaluate(keeper: LeaseKeeper): void {
  keeper.evaluateExpiry();
}

/** Tells of the hard deadline of an attempt that needs no heartbeat, and of the first half of the time to it. */
export class ExecutionWatch {
  private timer: NodeJS.Timeout | undefined;
  private isKnownToBeSlow = false;
  private loss: LeaseLossReason | undefined;
  private abortion: AbortController | undefined;

  /** @param startedAt - monotonic, before begin was sent for the first time. */
  constructor(
    private readonly startedAt: number,
    private readonly maxExecutionMs: number,
    private readonly observer: LeaseObserver,
  ) {}

  /** Aborted, with the {@link LeaseLossReason} as its reason, once the attempt can no longer succeed. */
  get signal(): AbortSignal {
    this.abortion ??= new AbortController();
    if (this.loss !== undefined) this.abortion.abort(this.loss);
    return this.abortion.signal;
  }

  /** Milliseconds to the hard deadline. */
  get leftMs(): number {
    return this.startedAt + this.maxExecutionMs - monotonicNow();
  }

  /** Whether the attempt can no longer succeed. */
  get isLost(): boolean {
    return this.loss !== undefined;
  }

  /** Begins to watch, or goes on after it was stopped. */
  start(): void {
    if (this.isKnownToBeSlow) {
      this.waitForDeadline();
      return;
    }
    this.wait(this.leftMs - this.maxExecutionMs / 2, () => {
      this.isKnownToBeSlow = true;
      this.observer.slow(monotonicNow() - this.startedAt);
      this.waitForDeadline();
    });
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  /** Only the first reason counts. */
  lose(reason: LeaseLossReason): void {
    this.stop();
    if (this.loss !== undefined) return;
    this.loss = reason;
    this.abortion?.abort(reason);
    this.observer.leaseLost(reason);
  }

  private waitForDeadline(): void {
    this.wait(this.leftMs, () => {
      this.lose('max_execution');
    });
  }

  private wait(ms: number, then: () => void): void {
    this.timer = setTimeout(then, Math.max(0, ms));
    this.timer.unref();
  }
}
