import type { Attempt } from './attempt.js';
import type { Claim } from './claim.js';
import { StoreConfigurationError, StoreUnavailableError } from './errors.js';
import type { IdempotencyEvents, RejectionReason } from './events.js';
import type { Acquisition, BeginReply, IdempotencyStore } from './idempotency-store.js';
import { LeasedAttempt, type AttemptHost } from './leased-attempt.js';
import { unfinishedRetentionMs, type EngineOptions } from './options.js';
import { newOwnerToken } from './owner-token.js';
import { jitteredPause, monotonicNow } from './pause.js';
import {
  UNKNOWN_FENCE,
  type FinishedState,
  type Lease,
  type Outcome,
  type OwnerToken,
} from './record.js';
import { ServerClock } from './server-clock.js';
import { UnprotectedAttempt } from './unprotected-attempt.js';

/** What is to be done with a request. */
export type Decision =
  /** Run the operation, then end the attempt. */
  | { readonly kind: 'run'; readonly attempt: Attempt }
  /** Answer with the stored outcome. */
  | { readonly kind: 'replay'; readonly state: FinishedState; readonly outcome: Outcome }
  | { readonly kind: 'reject'; readonly reason: RejectionReason };

/** How long a duplicate sleeps between two looks at the record it waits for. */
const WAIT_PAUSE_MS = 20;
const WAIT_PAUSE_MAX_MS = 250;

/** How often a shutdown looks whether the last attempt has ended. */
const DRAIN_PAUSE_MS = 20;

/**
 * Decides for every request whether its operation runs, and is the only caller of the store. One engine
 * serves all transports of a process.
 */
export class IdempotencyEngine implements AttemptHost {
  private readonly clock = new ServerClock();
  private readonly running = new Set<Attempt>();
  private waiters = 0;
  private stopping = false;
  abandoned = false;

  constructor(
    readonly store: IdempotencyStore,
    readonly events: IdempotencyEvents,
    private readonly options: Required<EngineOptions>,
  ) {}

  /** Asks the store what is to be done with the request; waits for the attempt in progress if it should. */
  async begin(claim: Claim): Promise<Decision> {
    const token = newOwnerToken();
    const decision = await this.beginOnce(claim, token);
    if (
      decision.kind === 'reject' &&
      decision.reason === 'in_progress' &&
      claim.options.whenInProgress === 'wait'
    ) {
      return this.tell(claim, await this.wait(claim, token));
    }
    return this.tell(claim, decision);
  }

  /**
   * Begins nothing more, and resolves when every attempt has ended and every outcome is stored, or
   * `shutdownTimeoutMs` is over.
   *
   * @returns how many attempts are still running: their keys come free with their leases.
   */
  async drain(): Promise<number> {
    this.stopping = true;
    const giveUpAt = monotonicNow() + this.options.shutdownTimeoutMs;
    while (this.running.size > 0 && monotonicNow() < giveUpAt) await jitteredPause(DRAIN_PAUSE_MS);
    this.abandoned = true;
    return this.running.size;
  }

  ended(attempt: Attempt): void {
    this.running.delete(attempt);
  }

  private async beginOnce(claim: Claim, token: OwnerToken): Promise<Decision> {
    if (this.stopping) return rejected('shutting_down');
    const sentAt = monotonicNow();
    let reply: BeginReply;
    try {
      reply = await this.send(claim, token);
      // The server's clock may have jumped since it was last seen, with a failover say: once more.
      if (reply.kind === 'late') reply = await this.send(claim, token);
    } catch (error) {
      return this.withoutStore(claim, token, error);
    }
    switch (reply.kind) {
      case 'acquired':
      case 'owned':
      case 'takeover':
        return this.run(claim, token, reply, sentAt);
      case 'completed':
      case 'failed':
        return { kind: 'replay', state: reply.kind, outcome: reply.outcome };
      case 'mismatch':
      case 'in_progress':
        return rejected(reply.kind);
      case 'abandoned':
        return rejected('outcome_unknown');
      case 'late':
      case 'stale_begin':
        return rejected('store_unavailable');
    }
  }

  private async send(claim: Claim, token: OwnerToken): Promise<BeginReply> {
    const { options, recordKey, fingerprint } = claim;
    const { commandTimeoutMs, maxExecutionMs } = options;
    const reply = await this.store.begin({
      recordKey,
      token,
      fingerprint,
      leaseMs: options.leaseMs,
      maxExecutionMs,
      recordRetentionMs: unfinishedRetentionMs(options) + maxExecutionMs,
      notAfter: this.clock.notAfter(commandTimeoutMs),
      onExpiredLease: options.onTakeover === 'reject' ? 'deny' : 'takeover',
      timeoutMs: commandTimeoutMs,
    });
    if ('now' in reply) this.clock.observe(reply.now);
    return reply;
  }

  private async run(
    claim: Claim,
    token: OwnerToken,
    reply: Acquisition & { kind: 'acquired' | 'owned' | 'takeover' },
    sentAt: number,
  ): Promise<Decision> {
    const lease = { recordKey: claim.recordKey, token, fence: reply.fence };
    const attempt = new LeasedAttempt(this, claim, lease, reply, sentAt);
    this.running.add(attempt);
    // A takeover whose reply was lost is told as one when its resend says `owned`.
    const tookOver = reply.kind === 'takeover' || (reply.kind === 'owned' && reply.takeovers > 0);
    this.announce(tookOver ? 'takeover' : 'acquired', claim, attempt);
    const usable = await this.isUsable(claim, lease, sentAt);
    if (!usable || this.isStopping()) {
      await attempt.release();
      return rejected(usable ? 'shutting_down' : 'store_unavailable');
    }
    return { kind: 'run', attempt };
  }

  /** A reply that took most of the lease has to be followed by an extension that works (protocol, rule 1). */
  private async isUsable(claim: Claim, lease: Lease, sentAt: number): Promise<boolean> {
    const { leaseMs, maxExecutionMs, commandTimeoutMs } = claim.options;
    if (monotonicNow() - sentAt < (leaseMs * 2) / 3) return true;
    try {
      const { kind } = await this.store.extend(lease, {
        leaseMs,
        recordRetentionMs: unfinishedRetentionMs(claim.options) + maxExecutionMs,
        timeoutMs: commandTimeoutMs,
      });
      return kind === 'ok';
    } catch {
      return false;
    }
  }

  private withoutStore(claim: Claim, token: OwnerToken, cause: unknown): Decision {
    const error = cause instanceof Error ? cause : new Error('The store failed.', { cause });
    const { operation, recordKey, options } = claim;
    this.events.emit({ type: 'store_unavailable', operation, recordKey, error });
    if (options.onStoreUnavailable === 'execute' && !(error instanceof StoreConfigurationError)) {
      const attempt = new UnprotectedAttempt(this, claim, token);
      this.running.add(attempt);
      this.announce('unprotected', claim, attempt);
      return { kind: 'run', attempt };
    }
    // It may have been acquired, or may still be: without this the key would be blocked for a lease.
    if (!(error instanceof StoreUnavailableError)) void this.letGo(claim, token);
    return rejected('store_unavailable');
  }

  private async letGo({ recordKey, options }: Claim, token: OwnerToken): Promise<void> {
    try {
      await this.store.release(
        { recordKey, token, fence: UNKNOWN_FENCE },
        {
          tombstoneMs: unfinishedRetentionMs(options),
          timeoutMs: options.commandTimeoutMs,
        },
      );
    } catch {
      // The best there was to try; the lease ends by itself.
    }
  }

  private async wait(claim: Claim, token: OwnerToken): Promise<Decision> {
    if (this.waiters >= this.options.maxWaiters) return rejected('in_progress');
    const startedAt = monotonicNow();
    const giveUpAt = startedAt + claim.options.waitTimeoutMs;
    let decision: Decision = rejected('in_progress');
    this.waiters += 1;
    try {
      for (
        let pauseMs = WAIT_PAUSE_MS;
        decision.kind === 'reject' && decision.reason === 'in_progress';
        pauseMs = Math.min(pauseMs * 1.5, WAIT_PAUSE_MAX_MS)
      ) {
        const leftMs = giveUpAt - monotonicNow();
        if (leftMs <= 0) return decision;
        await jitteredPause(Math.min(pauseMs, leftMs));
        // An attempt of its own may come out of it, if the one in progress let go or died.
        decision = await this.beginOnce(claim, token);
      }
      return decision;
    } finally {
      this.waiters -= 1;
      const { operation, recordKey } = claim;
      const waitedMs = monotonicNow() - startedAt;
      this.events.emit({ type: 'waited', operation, recordKey, waitedMs });
    }
  }

  private announce(
    type: 'acquired' | 'takeover' | 'unprotected',
    { operation, recordKey }: Claim,
    { number, fencingToken }: Attempt,
  ): void {
    this.events.emit({ type, operation, recordKey, attempt: number, fencingToken });
  }

  /** Raises the events of requests that do not run. */
  private tell({ operation, recordKey }: Claim, decision: Decision): Decision {
    if (decision.kind === 'replay') {
      this.events.emit({ type: 'replayed', operation, recordKey, state: decision.state });
    } else if (decision.kind === 'reject') {
      this.events.emit({ type: 'rejected', operation, recordKey, reason: decision.reason });
    }
    return decision;
  }

  /** Read anew after an await, which the compiler does not expect to change a field. */
  private isStopping(): boolean {
    return this.stopping;
  }
}

function rejected(reason: RejectionReason): Decision {
  return { kind: 'reject', reason };
}
