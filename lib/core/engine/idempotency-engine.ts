import type { Attempt } from '../operation/attempt.js';
import { originOf, type OperationRequest } from '../operation/operation-request.js';
import {
  inProgressRetentionMs,
  isAwaited,
  unfinishedRetentionMs,
  type LimitsOptions,
} from '../operation/options.js';
import type { IdempotencyEvents } from '../record/events.js';
import { UNKNOWN_FENCE, type OwnerToken } from '../record/record.js';
import { newOwnerToken } from '../record/record-key.js';
import type {
  Acquisition,
  Begin,
  BeginReply,
  IdempotencyStore,
} from '../store/idempotency-store.js';
import type { UnitOfWork } from '../transaction/unit-of-work.js';
import { DeadlineTimer } from '../util/deadlines.js';
import { asError, hasCode, StoreUnavailableError } from '../util/errors.js';
import { monotonicNow, ServerClock } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { isInProgress, rejectDecision, type Decision } from './decision.js';
import { DuplicateWaiters } from './duplicate-waiters.js';
import { LeasedAttempt } from './leased-attempt.js';
import { LocalAttempts } from './local-attempts.js';
import { TransactionalAttempt, type Transactions } from './transactional-attempt.js';
import { UnprotectedAttempt } from './unprotected-attempt.js';

/**
 * Decides for each request whether its operation runs. One per process, for all transports; only it calls the store.
 */
export class IdempotencyEngine implements AttemptServices {
  readonly deadlines = new DeadlineTimer();
  private readonly clock = new ServerClock();
  private readonly attempts: LocalAttempts;
  private readonly duplicateWaiters: DuplicateWaiters;

  constructor(
    readonly store: IdempotencyStore,
    readonly events: IdempotencyEvents,
    limits: Required<LimitsOptions>,
    private readonly unitOfWork?: UnitOfWork,
  ) {
    this.attempts = new LocalAttempts(limits.shutdownTimeoutMs);
    this.duplicateWaiters = new DuplicateWaiters(this, events, limits.maxWaiters);
  }

  /** Decides what to do with a request. Waits for the attempt in progress if its options say so. */
  async begin(request: OperationRequest): Promise<Decision> {
    const token = newOwnerToken();
    this.attempts.enter();
    try {
      let decision: Decision;
      try {
        decision = await this.beginOnce(request, token);
      } catch (error) {
        return this.emitDecision(request, this.withoutStore(request, token, error));
      }
      if (isInProgress(decision) && isAwaited(request.options)) {
        decision = await this.duplicateWaiters.wait(request, token);
      }
      return this.emitDecision(request, decision);
    } finally {
      this.attempts.leave();
    }
  }

  /**
   * Rejects new requests. Resolves when all attempts have ended and all outcomes are stored, or after
   * `limits.shutdownTimeoutMs`.
   * @returns how many attempts are still running. Their keys become free with their leases.
   */
  drain(): Promise<number> {
    const drained = this.attempts.drain();
    this.duplicateWaiters.wake();
    return drained;
  }

  get shutdownState(): AttemptServices['shutdownState'] {
    return this.attempts.shutdownState;
  }

  settling(attempt: Attempt): void {
    this.attempts.settling(attempt);
  }

  lost(attempt: Attempt): void {
    this.attempts.lost(attempt);
  }

  ended(attempt: Attempt): void {
    this.attempts.ended(attempt);
  }

  /** @internal */
  async beginOnce(
    request: OperationRequest,
    token: OwnerToken,
    onExpiredLease = this.attempts.has(request.recordKey, hasRecovery(request))
      ? 'deny'
      : expiredLeaseAction(request),
  ): Promise<Decision> {
    if (this.attempts.isStopping) return rejectDecision('shutting_down');
    const sentAt = monotonicNow();
    const begun = this.attempts.sent(request, sentAt);
    let reply: BeginReply;
    try {
      reply = this.observed(await this.send(request, token, onExpiredLease));
      // The server's clock may have jumped since the last reply, for example by a failover: send once more.
      if (reply.kind === 'late')
        reply = this.observed(await this.send(request, token, onExpiredLease));
    } finally {
      this.attempts.remove(begun);
    }
    switch (reply.kind) {
      case 'acquired':
      case 'owned':
      case 'takeover':
        return this.run(request, token, reply, sentAt);
      case 'completed':
      case 'failed':
        return { kind: 'replay', state: reply.kind, outcome: reply.outcome };
      case 'mismatch':
      case 'in_progress':
        return rejectDecision(reply.kind);
      case 'abandoned': {
        if (this.attempts.mayOwn(request.recordKey, hasRecovery(request), reply.fence)) {
          return rejectDecision('in_progress');
        }
        const requested = expiredLeaseAction(request);
        // Another process has taken the record over, or this one's attempt has reached its hard deadline.
        return onExpiredLease === requested
          ? rejectDecision('outcome_unknown')
          : this.beginOnce(request, token, requested);
      }
      case 'late':
        throw new StoreUnavailableError(
          'The store received begin too late, twice. Its clock is unsteady, or the latency to it exceeds "storeErrors.commandTimeoutMs".',
        );
      case 'stale_begin':
        return this.reportUnavailable(
          request,
          new StoreUnavailableError('The attempt was released before begin got a reply.'),
        );
      default:
        throw new TypeError(
          'Unexpected reply from store.begin(). Test the store with nestjs-idempotency/testing/store.',
        );
    }
  }

  private send(
    request: OperationRequest,
    token: OwnerToken,
    onExpiredLease: Begin['onExpiredLease'],
  ): Promise<BeginReply> {
    const { options, recordKey, fingerprint } = request;
    const { durationMs: leaseMs, maxExecutionMs } = options.lease;
    const { commandTimeoutMs } = options.storeErrors;
    return this.store.begin({
      recordKey,
      token,
      fingerprint,
      leaseMs,
      maxExecutionMs,
      recordRetentionMs: inProgressRetentionMs(options),
      notAfter: this.clock.notAfter(commandTimeoutMs),
      onExpiredLease,
      origin: hasRecovery(request) ? originOf(request) : undefined,
      timeoutMs: commandTimeoutMs,
    });
  }

  private observed(reply: BeginReply): BeginReply {
    if ('now' in reply) this.clock.observe(reply.now);
    return reply;
  }

  private run(
    request: OperationRequest,
    token: OwnerToken,
    reply: Acquisition,
    sentAt: number,
  ): Decision | Promise<Decision> {
    const lease = { recordKey: request.recordKey, token, fence: reply.fence };
    const attempt = request.options.transaction
      ? new TransactionalAttempt(this, request, lease, reply, sentAt, this.requiredTransactions())
      : new LeasedAttempt(this, request, lease, reply, sentAt);
    this.attempts.keep(attempt, request, sentAt);
    // A takeover also if the record was released since: the outcome of the earlier attempt is still unknown.
    this.announce(attempt.isTakeover ? 'takeover' : 'acquired', request, attempt);
    const trouble = attempt.start();
    return trouble instanceof Promise
      ? trouble.then((found) => this.runUnless(found, request, attempt))
      : this.runUnless(trouble, request, attempt);
  }

  private runUnless(
    trouble: Error | undefined,
    request: OperationRequest,
    attempt: Attempt,
  ): Decision | Promise<Decision> {
    if (trouble === undefined && !this.attempts.isStopping) return { kind: 'run', attempt };
    const decide = () =>
      trouble === undefined
        ? rejectDecision('shutting_down')
        : this.reportUnavailable(request, trouble);
    return attempt.release().then(decide);
  }

  /** The options were checked at the start. */
  private requiredTransactions(): Transactions {
    const { unitOfWork, store } = this;
    const records = store.transactional;
    if (unitOfWork === undefined || records === undefined) {
      throw new TypeError('There is no unit of work, or the store does not support transactions.');
    }
    return { unitOfWork, records };
  }

  /** @internal Reports that the store did not reply, or replied too late. */
  reportUnavailable({ operation, recordKey }: OperationRequest, error: Error): Decision {
    this.events.emit({ type: 'store_unavailable', operation, recordKey, error });
    return rejectDecision('store_unavailable');
  }

  private withoutStore(request: OperationRequest, token: OwnerToken, cause: unknown): Decision {
    const error = asError(cause);
    const { options } = request;
    const decision = this.reportUnavailable(request, error);
    const wasNotExecuted = hasCode(error, 'idempotency_store_unavailable');
    // Only on an outage: a wrong password or a bug of the store must not disable protection.
    const isOutage = wasNotExecuted || hasCode(error, 'idempotency_store_outcome_unknown');
    if (
      isOutage &&
      options.storeErrors.whenUnavailable === 'execute' &&
      !this.attempts.isStopping
    ) {
      const attempt = new UnprotectedAttempt(this, request, token);
      // The begin without a reply may have acquired the record.
      this.attempts.keep(attempt, request, monotonicNow());
      this.announce('unprotected', request, attempt);
      return { kind: 'run', attempt };
    }
    if (!wasNotExecuted) void this.releaseUnowned(request, token);
    return decision;
  }

  /**
   * @internal Releases a record that a begin without a reply may have acquired and would block for a lease. Never
   * rejects.
   */
  async releaseUnowned({ recordKey, options }: OperationRequest, token: OwnerToken): Promise<void> {
    this.attempts.enter();
    try {
      await this.store.release(
        { recordKey, token, fence: UNKNOWN_FENCE },
        {
          tombstoneMs: unfinishedRetentionMs(options),
          notify: isAwaited(options),
          // No request waits for it, and it may need a new connection.
          timeoutMs: options.storeErrors.saveTimeoutMs,
        },
      );
    } catch {
      // Best effort: otherwise the lease expires.
    } finally {
      this.attempts.leave();
    }
  }

  private announce(
    type: 'acquired' | 'takeover' | 'unprotected',
    { operation, recordKey }: OperationRequest,
    { number, fencingToken }: Attempt,
  ): void {
    this.events.emit({ type, operation, recordKey, attempt: number, fencingToken });
  }

  private emitDecision({ operation, recordKey }: OperationRequest, decision: Decision): Decision {
    if (decision.kind === 'replay') {
      this.events.emit({ type: 'replayed', operation, recordKey, state: decision.state });
    } else if (decision.kind === 'reject') {
      this.events.emit({ type: 'rejected', operation, recordKey, reason: decision.reason });
    }
    return decision;
  }
}

function expiredLeaseAction({ options }: OperationRequest): Begin['onExpiredLease'] {
  return options.lease.onTakeover === 'reject' ? 'deny' : 'takeover';
}

/** Whether `lease.onTakeover` looks up what an earlier attempt has done before the operation runs again. */
function hasRecovery({ options }: OperationRequest): boolean {
  return typeof options.lease.onTakeover === 'function';
}
