import { AsyncResource } from 'node:async_hooks';
import { inProgressRetentionMs, type ResolvedProtocolOptions } from '../operation/options.js';
import type { LeaseLossReason } from '../record/events.js';
import type { Lease } from '../record/record.js';
import type { ExtendReply } from '../record/commands.js';
import { StoreUnavailableError } from '../errors/errors.js';
import type { DeadlineListener } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { checkedReply } from './checked-reply.js';

interface LeaseObserver {
  leaseLost(reason: LeaseLossReason): void;
  slow(elapsedMs: number): void;
  /** What the signal is aborted with. */
  abortReason(reason: LeaseLossReason): unknown;
}

/** Heartbeats per lease: two may fail before it expires. */
const HEARTBEATS_PER_LEASE = 3;

/** The timeout of a heartbeat, as a part of the lease: one without a reply leaves time for two more. */
const HEARTBEAT_TIMEOUT_PART = 1 / 4;

/** The pause after a failed heartbeat, as a part of the lease. */
const RETRY_PART = 1 / 12;

/** A begin whose reply took more of the lease must be confirmed, by an extend whose reply took less (protocol, rule 1). */
const UNCONFIRMED_PART = 2 / 3;

/**
 * Watches the hard deadline of an attempt, and half of the time to it. Given a lease, extends it by a heartbeat at each
 * third of it, one at a time, none after the hard deadline (protocol, rules 1 and 2). The lease is measured by the
 * monotonic clock, from **before** the acquiring command was sent.
 */
export class LeaseKeeper implements DeadlineListener {
  dueAt = Infinity;
  /** @internal */
  previousDeadline: DeadlineListener | undefined = undefined;
  /** @internal */
  nextDeadline: DeadlineListener | undefined = undefined;
  /** Gives listeners of the signal and of events the async context of the request. */
  private readonly context = new AsyncResource('IdempotencyLease', { requireManualDestroy: true });
  readonly hardDeadlineAt: number;
  /** This one and the next stay so without a lease to extend. */
  private leaseOverAt = Infinity;
  private heartbeatAt = Infinity;
  private slowAt: number;
  private inFlight = false;
  private stopped = false;
  private loss: LeaseLossReason | undefined;
  private abortion: AbortController | undefined;

  /**
   * @param lease - to extend by heartbeats, if any.
   * @param startedAt - monotonic, before begin was sent for the first time.
   */
  constructor(
    private readonly services: Omit<AttemptServices, 'attempts' | 'outcomes'>,
    private readonly lease: Lease | undefined,
    private readonly options: ResolvedProtocolOptions,
    private readonly startedAt: number,
    private readonly observer: LeaseObserver,
  ) {
    this.hardDeadlineAt = startedAt + options.lease.maxExecution;
    this.slowAt = startedAt + options.lease.maxExecution / 2;
    if (lease !== undefined) this.renewed(startedAt);
  }

  /** Aborted once the lease is lost. */
  get signal(): AbortSignal {
    if (this.abortion === undefined) {
      // Created on demand: most operations never read it, and it costs more than the rest of this class.
      this.abortion = new AbortController();
      if (this.loss !== undefined) this.abort(this.loss);
    }
    return this.abortion.signal;
  }

  /** Milliseconds, negative once it has expired; `undefined` without a lease to extend. */
  get leaseLeftMs(): number | undefined {
    return this.lease === undefined ? undefined : this.leaseOverAt - this.services.clock.now();
  }

  /** A method, because the compiler does not expect an await to change a property. */
  isLost(): boolean {
    return this.loss !== undefined;
  }

  /**
   * Starts, also again after {@link stop}.
   * @param now - monotonic.
   * @returns an error if the operation must not start; a promise if begin took most of the lease, which must then be
   * extended.
   */
  start(now: number): Error | undefined | Promise<Error | undefined> {
    this.stopped = false;
    if (this.lease !== undefined && this.isUnconfirmed(this.startedAt, now)) {
      return this.confirm(this.lease);
    }
    this.arm();
    return undefined;
  }

  stop(): void {
    this.stopped = true;
    this.services.deadlines.cancel(this);
  }

  /** Stops and reports a loss that only the attempt observes. */
  lose(reason: LeaseLossReason): void {
    this.stop();
    this.context.runInAsyncScope(() => {
      this.lost(reason);
    });
  }

  private async confirm(lease: Lease): Promise<Error | undefined> {
    const { clock } = this.services;
    const sentAt = clock.now();
    try {
      const { kind } = await this.extend(lease);
      const now = clock.now();
      // The server counts the hard deadline from when it executed begin, which may be much later.
      const isLate = this.isUnconfirmed(sentAt, now) || now >= this.hardDeadlineAt;
      if (kind !== 'ok' || isLate) return unconfirmed();
    } catch {
      return unconfirmed();
    }
    this.renewed(sentAt);
    this.arm();
    return undefined;
  }

  private isUnconfirmed(sentAt: number, now: number): boolean {
    return now - sentAt >= this.options.lease.duration * UNCONFIRMED_PART;
  }

  private renewed(sentAt: number): void {
    const { duration: durationMs } = this.options.lease;
    this.leaseOverAt = Math.min(sentAt + durationMs, this.hardDeadlineAt);
    this.heartbeatAt = sentAt + durationMs / HEARTBEATS_PER_LEASE;
  }

  private arm(): void {
    if (this.stopped) return;
    const { deadlines } = this.services;
    deadlines.cancel(this);
    this.dueAt = Math.min(
      this.inFlight ? Infinity : this.heartbeatAt,
      this.loss === undefined ? this.leaseOverAt : Infinity,
      this.slowAt,
      this.hardDeadlineAt,
    );
    deadlines.schedule(this);
  }

  onDeadline(): void {
    this.context.runInAsyncScope(() => {
      this.watch();
    });
  }

  private watch(): void {
    const now = this.services.clock.now();
    if (now >= this.slowAt) {
      this.slowAt = Infinity;
      this.observer.slow(now - this.startedAt);
    }
    if (now >= this.hardDeadlineAt) {
      this.lost('max_execution');
      this.stop();
      return;
    }
    if (now >= this.leaseOverAt) {
      // After a blocked event loop, timers run before input. A reply that has already arrived is read first.
      const evaluate = () => {
        if (!this.stopped && this.services.clock.now() >= this.leaseOverAt) this.lost('expired');
      };
      if (this.inFlight) this.services.clock.setImmediate(evaluate, undefined);
      else evaluate();
    }
    // Also after it has expired: if it was not taken over, it can still be extended.
    if (this.lease !== undefined && now >= this.heartbeatAt && !this.inFlight) {
      void this.beat(this.lease, now);
    }
    this.arm();
  }

  private async beat(lease: Lease, sentAt: number): Promise<void> {
    this.inFlight = true;
    try {
      this.accept(await this.extend(lease), sentAt);
    } catch {
      // The next heartbeat is the retry. It is sent sooner than usual, before the lease expires.
      this.heartbeatAt = this.services.clock.now() + this.options.lease.duration * RETRY_PART;
    } finally {
      this.inFlight = false;
      this.arm();
    }
  }

  private extend(lease: Lease): Promise<ExtendReply> {
    const timeoutMs = Math.ceil(this.options.lease.duration * HEARTBEAT_TIMEOUT_PART);
    return extendLease(this.services, lease, this.options, timeoutMs);
  }

  private accept({ kind }: ExtendReply, sentAt: number): void {
    switch (kind) {
      case 'ok':
      case 'revived':
        this.renewed(sentAt);
        return;
      case 'not_in_progress':
        // The attempt's own complete or release was executed, though its reply may not have arrived yet.
        this.stop();
        return;
      case 'lost':
      case 'gone':
      case 'max_execution':
        if (!this.stopped) this.lost(kind);
        this.stop();
        return;
      default:
        throw new TypeError(
          'Unexpected reply from store.extend(). Test the store with nestjs-idempotency/testing/store.',
        );
    }
  }

  private lost(reason: LeaseLossReason): void {
    if (this.loss === reason || (this.loss !== undefined && this.loss !== 'expired')) return;
    this.loss = reason;
    this.abort(reason);
    this.observer.leaseLost(reason);
  }

  private abort(reason: LeaseLossReason): void {
    this.abortion?.abort(this.observer.abortReason(reason));
  }
}

export function extendLease(
  { store, events }: Pick<AttemptServices, 'store' | 'events'>,
  lease: Lease,
  options: ResolvedProtocolOptions,
  withinMs = Infinity,
): Promise<ExtendReply> {
  const command = {
    leaseMs: options.lease.duration,
    recordRetentionMs: inProgressRetentionMs(options),
    timeoutMs: Math.min(options.storeErrors.commandTimeout, withinMs),
  };
  return events.counted('extend', () => store.extend(lease, command), checkedExtension);
}

function unconfirmed(): Error {
  return new StoreUnavailableError(
    'The reply to begin took most of the lease, and the lease could not be extended. Check the latency to the store, or increase "lease.duration".',
  );
}

function checkedExtension(reply: ExtendReply): void {
  checkedReply('extend', reply);
}
