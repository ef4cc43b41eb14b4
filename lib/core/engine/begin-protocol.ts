import type { Attempt } from '../operation/attempt.js';
import { originOf, type OperationRequest } from '../operation/operation-request.js';
import { inProgressRetentionMs, isAwaited, unfinishedRetentionMs } from '../operation/options.js';
import type { RejectionReason } from '../record/events.js';
import type { IdempotencyEvents } from '../record/idempotency-events.js';
import {
  UNKNOWN_FENCE,
  type FinishedState,
  type Outcome,
  type OwnerToken,
} from '../record/record.js';
import type {
  Acquisition,
  Begin,
  BeginReply,
  IdempotencyStore,
} from '../store/idempotency-store.js';
import type { Telemetries } from '../telemetry/telemetries.js';
import type { Clock } from '../util/clock.js';
import { asError, errorTypeOf, StoreUnavailableError } from '../util/errors.js';
import { isObject } from '../util/option-checks.js';
import { ServerClock } from '../util/time.js';
import { unexpectedReply } from './checked-reply.js';
import type { LocalAttempts } from './local-attempts.js';

export type Decision =
  | { readonly kind: 'run'; readonly attempt: Attempt }
  | {
      readonly kind: 'replay';
      readonly state: FinishedState;
      readonly outcome: Outcome;
      readonly trace: string | undefined;
    }
  | {
      readonly kind: 'reject';
      readonly reason: RejectionReason;
      /** Of the attempt in progress. */
      readonly trace: string | undefined;
    };

export function rejectDecision(reason: RejectionReason, trace?: string): Decision {
  return { kind: 'reject', reason, trace };
}

export function isInProgress(decision: Decision): boolean {
  return decision.kind === 'reject' && decision.reason === 'in_progress';
}

/** `note`: of the record that is taken over. */
export type Begun = Acquisition & { readonly note?: string };

/**
 * Starts the attempt that a reply allows to run.
 * @param sentAt - monotonic, before begin was sent for the first time.
 */
type StartAttempt = (
  request: OperationRequest,
  token: OwnerToken,
  reply: Begun,
  sentAt: number,
) => Decision | Promise<Decision>;

/** Goes on after begin, in its promise: another one would cost each request more than these calls. */
export interface BeginCaller {
  /** @internal */
  decided?(
    request: OperationRequest,
    token: OwnerToken,
    decision: Decision,
  ): Decision | Promise<Decision>;
  /** @internal The store gave no reply. */
  failed(request: OperationRequest, token: OwnerToken, error: Error): Decision;
}

const REJECTING: BeginCaller = {
  failed: (_request, _token, error) => {
    throw error;
  },
};

/** Sends begin, and decides by the store's reply (protocol, rules 0, 4 and 8). */
export class BeginProtocol {
  private readonly serverClock = new ServerClock();

  constructor(
    readonly store: IdempotencyStore,
    readonly events: IdempotencyEvents,
    private readonly attempts: LocalAttempts,
    private readonly start: StartAttempt,
    private readonly telemetry: Telemetries,
    readonly clock: Clock,
  ) {}

  /** Sends begin once, and again if it was late. */
  async begin(
    request: OperationRequest,
    token: OwnerToken,
    caller: BeginCaller,
    onExpiredLease = this.attempts.has(request.recordKey, hasRecovery(request))
      ? 'deny'
      : expiredLeaseAction(request),
  ): Promise<Decision> {
    let decision: Decision;
    try {
      if (this.attempts.isStopping) {
        decision = rejectDecision('shutting_down');
      } else {
        const sentAt = this.clock.now();
        const begun = this.attempts.sent(request, sentAt);
        let now = sentAt;
        let reply: BeginReply;
        try {
          reply = this.observed(await this.send(request, token, onExpiredLease, now), now);
          // The server's clock may have jumped since the last reply, for example by a failover: send once more.
          if (reply.kind === 'late') {
            now = this.clock.now();
            // Another begin of this process may have acquired the record meanwhile.
            if (this.attempts.has(request.recordKey, hasRecovery(request), begun)) {
              onExpiredLease = 'deny';
            }
            reply = this.observed(await this.send(request, token, onExpiredLease, now), now);
          }
        } catch (error) {
          this.events.counter.commandFailed('begin', now, error);
          throw error;
        } finally {
          this.attempts.remove(begun);
        }
        const decided = this.decide(request, token, onExpiredLease, reply, sentAt);
        decision = decided instanceof Promise ? await decided : decided;
      }
    } catch (error) {
      return caller.failed(request, token, asError(error));
    }
    return caller.decided?.(request, token, decision) ?? decision;
  }

  private decide(
    request: OperationRequest,
    token: OwnerToken,
    onExpiredLease: Begin['onExpiredLease'],
    reply: BeginReply,
    sentAt: number,
  ): Decision | Promise<Decision> {
    switch (reply.kind) {
      case 'acquired':
      case 'owned':
      case 'takeover':
        return this.start(request, token, reply, sentAt);
      case 'completed':
      case 'failed':
        return { kind: 'replay', state: reply.kind, outcome: reply.outcome, trace: reply.note };
      case 'mismatch':
        return rejectDecision('mismatch');
      case 'in_progress':
        return rejectDecision('in_progress', reply.note);
      case 'abandoned': {
        if (this.attempts.mayOwn(request.recordKey, hasRecovery(request), reply.fence)) {
          return rejectDecision('in_progress', reply.note);
        }
        const requested = expiredLeaseAction(request);
        // Another process has taken the record over, or this one's attempt has reached its hard deadline.
        return onExpiredLease === requested
          ? rejectDecision('outcome_unknown')
          : this.begin(request, token, REJECTING, requested);
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
        throw unexpectedReply('begin');
    }
  }

  /** Reports a mistake in the application's own code that changes no decision. */
  optionFailed(
    { operation, transport, recordKey }: OperationRequest,
    option: string,
    error: unknown,
  ): void {
    const about = { operation, transport, recordKey, option, error };
    this.events.emit({ type: 'option_failed', ...about, errorType: errorTypeOf(error) });
  }

  /** Reports that the store did not reply, or replied too late. */
  reportUnavailable(request: OperationRequest, error: Error): Decision {
    const { operation, transport, recordKey } = request;
    const source = transport === undefined ? 'reconcile' : 'request';
    this.events.emit({ type: 'store_unavailable', operation, transport, recordKey, source, error });
    return rejectDecision('store_unavailable');
  }

  /** Releases a record that a begin without a reply may have acquired and would block for a lease. Never rejects. */
  async releaseUnowned({ recordKey, options }: OperationRequest, token: OwnerToken): Promise<void> {
    this.attempts.enter();
    try {
      const command = {
        tombstoneMs: unfinishedRetentionMs(options),
        notify: isAwaited(options),
        // No request waits for it, and it may need a new connection.
        timeoutMs: options.storeErrors.saveTimeoutMs,
      };
      await this.events.counted('release', () =>
        this.store.release({ recordKey, token, fence: UNKNOWN_FENCE }, command),
      );
    } catch {
      // Best effort, and counted: otherwise the lease expires.
      return;
    } finally {
      this.attempts.leave();
    }
  }

  private send(
    request: OperationRequest,
    token: OwnerToken,
    onExpiredLease: Begin['onExpiredLease'],
    now: number,
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
      notAfter: this.serverClock.notAfter(commandTimeoutMs, now),
      onExpiredLease,
      origin: hasRecovery(request) ? originOf(request) : undefined,
      note: this.telemetry.traceOf?.(),
      timeoutMs: commandTimeoutMs,
    });
  }

  private observed(reply: BeginReply, sentAt: number): BeginReply {
    const now = this.clock.now();
    // A custom store may return anything.
    if (!isObject(reply)) throw unexpectedReply('begin');
    if ('now' in reply) this.serverClock.observe(reply.now, now);
    this.events.counter.commandReplied('begin', sentAt, now);
    return reply;
  }
}

function expiredLeaseAction({ options }: OperationRequest): Begin['onExpiredLease'] {
  return options.lease.onTakeover === 'reject' ? 'deny' : 'takeover';
}

/** Whether `lease.onTakeover` looks up what an earlier attempt has done before the operation runs again. */
function hasRecovery({ options }: OperationRequest): boolean {
  return typeof options.lease.onTakeover === 'function';
}
