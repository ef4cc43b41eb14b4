import type { OperationRequest } from '../operation/operation-request.js';
import { isAwaited, type ResolvedLimits } from '../operation/options.js';
import {
  invalidRequestReason,
  type AttemptEnd,
  type Transport,
  type UnprotectedReason,
} from '../record/events.js';
import type { IdempotencyEvents } from '../record/idempotency-events.js';
import { bytesOf, type Outcome, type OwnerToken } from '../record/record.js';
import { OwnerTokens } from '../record/record-key.js';
import type { IdempotencyStore } from '../store/idempotency-store.js';
import { Telemetries } from '../telemetry/telemetries.js';
import type { UnitOfWork } from '../transaction/unit-of-work.js';
import { nodeClock, type Clock } from '../util/clock.js';
import { errorTypeOf, hasCode } from '../util/errors.js';
import { DeadlineTimer } from '../util/time.js';
import type { AttemptServices, EngineAttempt } from './attempt-services.js';
import {
  BeginProtocol,
  isInProgress,
  rejectDecision,
  type BeginCaller,
  type Begun,
  type Decision,
} from './begin-protocol.js';
import { CallerAttempts } from './caller-attempts.js';
import { DuplicateWaiters } from './duplicate-waiters.js';
import { LeasedAttempt } from './leased-attempt.js';
import { LocalAttempts } from './local-attempts.js';
import { TransactionalAttempt, type Transactions } from './transactional-attempt.js';
import { UnprotectedAttempt } from './unprotected-attempt.js';

/**
 * Decides for each request whether its operation runs, and starts the attempt: with a lease, in a transaction, or
 * without the store. One per process, for all transports.
 */
export class IdempotencyEngine implements AttemptServices, BeginCaller {
  readonly deadlines: DeadlineTimer;
  private readonly tokens: OwnerTokens;
  private readonly attempts: LocalAttempts;
  private readonly protocol: BeginProtocol;
  private readonly duplicateWaiters: DuplicateWaiters;
  private readonly callerAttempts: CallerAttempts | undefined;

  constructor(
    readonly store: IdempotencyStore,
    readonly events: IdempotencyEvents,
    limits: ResolvedLimits,
    private readonly unitOfWork?: UnitOfWork,
    readonly telemetry: Telemetries = new Telemetries([], events),
    readonly clock: Clock = nodeClock,
  ) {
    this.deadlines = new DeadlineTimer(clock);
    this.tokens = new OwnerTokens(clock);
    this.attempts = new LocalAttempts(limits.shutdownTimeoutMs, clock);
    const start = this.start.bind(this);
    this.protocol = new BeginProtocol(store, events, this.attempts, start, telemetry, clock);
    this.duplicateWaiters = new DuplicateWaiters(this.protocol, events, limits);
    const { maxAttemptsPerCaller: max } = limits;
    this.callerAttempts = max === undefined ? undefined : new CallerAttempts(max);
  }

  /** Decides what to do with a request. Waits for the attempt in progress if its options say so. */
  begin(request: OperationRequest): Promise<Decision> {
    const token = this.tokens.next();
    this.attempts.enter();
    return this.protocol.begin(request, token, this);
  }

  /** @internal */
  decided(
    request: OperationRequest,
    token: OwnerToken,
    decision: Decision,
  ): Decision | Promise<Decision> {
    if (!isInProgress(decision) || !isAwaited(request.options)) return this.left(request, decision);
    const waited = this.duplicateWaiters.wait(request, token);
    return waited.then((later) => this.left(request, later));
  }

  /** @internal */
  failed(request: OperationRequest, token: OwnerToken, error: Error): Decision {
    return this.left(request, this.withoutStore(request, token, error));
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

  /** The attempts that have not ended. */
  running(): Iterable<EngineAttempt> {
    return this.attempts.all();
  }

  /** The duplicates that wait for one. */
  waiting(): Iterable<OperationRequest> {
    return this.duplicateWaiters.requests();
  }

  get shutdownState(): AttemptServices['shutdownState'] {
    return this.attempts.shutdownState;
  }

  settling(attempt: EngineAttempt): void {
    this.attempts.settling(attempt);
  }

  lost(attempt: EngineAttempt): void {
    this.attempts.lost(attempt);
  }

  ended(attempt: EngineAttempt, how: AttemptEnd, stored?: Outcome): void {
    this.attempts.ended(attempt);
    this.callerAttempts?.ended(attempt.request);
    const { events } = this;
    const { request, isProtected, elapsedMs: durationMs } = attempt;
    // Without protection, the operation's start is the attempt's first event.
    if (!isProtected && how === 'not_started') return;
    if (!events.wants('ended')) {
      events.counter.ended(request, how, durationMs, isProtected);
      return;
    }
    const { subject } = attempt;
    // Not by a spread of the first into the second: on Node 20, it takes 1.5 µs to copy such an object with a fraction.
    events.emit(
      stored === undefined
        ? { type: 'ended', ...subject, how, durationMs }
        : { type: 'ended', ...subject, how, durationMs, bytes: bytesOf(stored) },
    );
  }

  /** Reports a request that was rejected before its begin, if that is what `error` says. */
  reportInvalid(operation: string, transport: Transport, error: unknown): void {
    const reason = invalidRequestReason(error);
    if (reason !== undefined)
      this.events.emit({ type: 'invalid_request', operation, transport, reason });
  }

  /** Reports an operation that starts to run without an attempt, as its options say. */
  reportUnprotected(
    operation: string,
    transport: Transport,
    reason: Exclude<UnprotectedReason, 'store_unavailable'>,
  ): void {
    this.events.emit({ type: 'unprotected', operation, transport, reason });
  }

  /** Reports a request without a key that has one under a `name` that is not read. */
  reportMisnamedKey(operation: string, transport: Transport, name: string): void {
    this.events.emit({ type: 'key_misnamed', operation, transport, name });
  }

  /** Reports a function given as an option that failed after the effect, outside of an attempt. */
  reportOption(operation: string, transport: Transport, option: string, error: unknown): void {
    const about = { operation, transport, option, error, errorType: errorTypeOf(error) };
    this.events.emit({ type: 'option_failed', ...about });
  }

  private start(
    request: OperationRequest,
    token: OwnerToken,
    reply: Begun,
    sentAt: number,
  ): Decision | Promise<Decision> {
    const lease = { recordKey: request.recordKey, token, fence: reply.fence };
    const attempt = request.options.transaction
      ? new TransactionalAttempt(this, request, lease, reply, sentAt, this.requiredTransactions())
      : new LeasedAttempt(this, request, lease, reply, sentAt);
    this.attempts.keep(attempt, sentAt);
    // A takeover also if the record was released since: the outcome of the earlier attempt is still unknown.
    if (attempt.isTakeover) {
      this.events.emit({ type: 'takeover', ...attempt.subject, trace: reply.note });
    } else if (this.events.wants('acquired')) {
      this.events.emit({ type: 'acquired', ...attempt.subject });
    }
    if (this.callerAttempts?.admits(request, attempt.isTakeover) === false) {
      return attempt.discard().then(() => rejectDecision('too_many_attempts'));
    }
    const trouble = attempt.start();
    return trouble instanceof Promise
      ? trouble.then((found) => this.runUnless(found, request, attempt))
      : this.runUnless(trouble, request, attempt);
  }

  private runUnless(
    trouble: Error | undefined,
    request: OperationRequest,
    attempt: LeasedAttempt,
  ): Decision | Promise<Decision> {
    if (trouble === undefined && !this.attempts.isStopping) return { kind: 'run', attempt };
    const decide = () =>
      trouble === undefined
        ? rejectDecision('shutting_down')
        : this.protocol.reportUnavailable(request, trouble);
    return attempt.discard().then(decide);
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

  private withoutStore(request: OperationRequest, token: OwnerToken, error: Error): Decision {
    let decision = this.protocol.reportUnavailable(request, error);
    const wasNotExecuted = hasCode(error, 'idempotency_store_unavailable');
    // Only on an outage: a wrong password or a bug of the store must not disable protection.
    const isOutage = wasNotExecuted || hasCode(error, 'idempotency_store_outcome_unknown');
    const mayRun = request.options.storeErrors.whenUnavailable === 'execute';
    if (isOutage && mayRun && !this.attempts.isStopping) {
      if (this.callerAttempts?.admits(request, false) === false) {
        decision = rejectDecision('too_many_attempts');
      } else {
        return this.unprotected(request, token);
      }
    }
    if (!wasNotExecuted) void this.protocol.releaseUnowned(request, token);
    return decision;
  }

  private unprotected(request: OperationRequest, token: OwnerToken): Decision {
    const attempt = new UnprotectedAttempt(this, request, token);
    // The begin without a reply may have acquired the record.
    this.attempts.keep(attempt, this.clock.now());
    return { kind: 'run', attempt };
  }

  /** The begin has ended. */
  private left(request: OperationRequest, decision: Decision): Decision {
    this.attempts.leave();
    if (decision.kind === 'run') return decision;
    const { events } = this;
    const isReplay = decision.kind === 'replay';
    if (!events.wants(isReplay ? 'replayed' : 'rejected')) {
      if (isReplay) events.counter.replayed(request);
      else events.counter.rejected(request, decision.reason);
      return decision;
    }
    const { operation, transport, recordKey } = request;
    const about = { operation, transport, recordKey, trace: decision.trace };
    if (isReplay) events.emit({ type: 'replayed', ...about, state: decision.state });
    else events.emit({ type: 'rejected', ...about, reason: decision.reason });
    return decision;
  }
}
