import {
  callerPartsOf,
  parseOrigin,
  type AbandonedRequest,
  type OperationRequest,
  type ReceivedRequest,
} from '../operation/operation-request.js';
import type { ResolvedLimits } from '../operation/options.js';
import type { Annotations } from '../record/annotations.js';
import { invalidRequestReason, type Transport, type UnprotectedReason } from '../record/events.js';
import type { IdempotencyEvents } from '../record/idempotency-events.js';
import { UNKNOWN_FENCE, type Outcome, type OwnerToken, type RecordKey } from '../record/record.js';
import type { Scope } from '../record/scope.js';
import { OutcomeTransform } from '../payload/outcome-transform.js';
import { checkDigestKeysLoaded } from '../payload/protect-digests.js';
import type { StoreWarning } from '../record/store-warning.js';
import type { AbandonedRecord } from '../record/commands.js';
import {
  Digests,
  type DigestProtection,
  type Identified,
  type RecordName,
} from '../record/digests.js';
import { OwnerTokens } from '../record/record-key.js';
import type { IdempotencyStore } from '../store/idempotency-store.js';
import { Telemetries } from '../telemetry/telemetries.js';
import type { UnitOfWork } from '../transaction/unit-of-work.js';
import { nodeClock, type Clock } from '../util/clock.js';
import { asError, hasCode } from '../errors/errors.js';
import { DeadlineTimer } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { EngineAttempt, UnprotectedEnding } from './attempt.js';
import {
  BeginProtocol,
  isInProgress,
  rejectDecision,
  type Decision,
  type Moved,
} from './begin-protocol.js';
import { DuplicateWaiters } from './duplicate-waiters.js';
import { LocalAttempts, type KeptAttempt } from './local-attempts.js';

/** Of an attempt without a record. */
const FIRST = { attempt: 1, takeovers: 0 };

/**
 * Decides for each request whether its operation runs, and starts the attempt: with a lease, in a transaction, or
 * without the store. One per process, for all transports.
 */
export class IdempotencyEngine {
  private readonly digests: Digests;
  private readonly services: AttemptServices;
  private readonly tokens: OwnerTokens;
  private readonly protocol: BeginProtocol;
  private readonly duplicateWaiters: DuplicateWaiters;

  constructor(
    readonly store: IdempotencyStore,
    readonly events: IdempotencyEvents,
    limits: ResolvedLimits,
    unitOfWork?: UnitOfWork,
    readonly telemetry: Telemetries = new Telemetries([], events),
    readonly clock: Clock = nodeClock,
    readonly service?: string,
    readonly outcomes = new OutcomeTransform(undefined, clock),
    protection?: DigestProtection,
    readonly annotations?: Annotations,
  ) {
    this.digests = new Digests(service, protection);
    const attempts = new LocalAttempts(limits, clock);
    const deadlines = new DeadlineTimer(clock);
    this.services = { store, events, clock, deadlines, attempts, outcomes, annotations };
    this.tokens = new OwnerTokens(clock);
    const transactions = { unitOfWork, records: store.transactional };
    this.protocol = new BeginProtocol(this.services, transactions, telemetry, service);
    this.duplicateWaiters = new DuplicateWaiters(this.protocol, this.tokens, limits);
  }

  /** Loads the keys and opens the blob store, as {@link OutcomeTransform.open} does, whose `close` is the counterpart. */
  async open(): Promise<readonly StoreWarning[]> {
    const warnings = await this.outcomes.open();
    return [...warnings, ...checkDigestKeysLoaded(this.outcomes.ring, this.digests.isProtected)];
  }

  /** Names the record of a request; no other part of the library does. */
  requestOf(received: ReceivedRequest): OperationRequest {
    const { operation, transport, scope, keyOperation, key, fingerprint } = received;
    const plain = {
      recordKey: this.digests.recordKey(scope, keyOperation, key),
      fingerprint,
      operation,
      transport,
      scope,
      key,
      options: received.options,
      waitAtMostMs: received.waitAtMostMs,
      takesStreams: received.takesStreams,
      clientSignal: received.clientSignal,
    };
    return this.digests.isProtected ? this.protectedRequest(plain, keyOperation) : plain;
  }

  /** The same, under its protected names. */
  private protectedRequest(
    plain: OperationRequest,
    operation: string | undefined,
  ): OperationRequest {
    const { scope, key, recordKey: plainKey } = plain;
    const [{ recordKey, fingerprint = plain.fingerprint }, ...others] = this.digests.names(
      { scope, caller: callerPartsOf(plain), operation, key },
      plain.fingerprint,
    );
    return { ...plain, recordKey, fingerprint, plainKey, ...otherNames(others) };
  }

  /** The names under which the record of a key may be stored, for who looks it up without a request. */
  recordKeysOf(identity: Omit<Identified, 'caller'>): RecordKey[] {
    const { scope } = identity;
    // The first part of a message's scope is its consumer, and none of the caller.
    const callers =
      scope.length > 0 && this.digests.isProtected ? [scope, scope.slice(1)] : [scope];
    const names = callers.flatMap((caller) => this.digests.names({ ...identity, caller }));
    return [...new Set(names.map(({ recordKey }) => recordKey))];
  }

  /**
   * What the record keys of a scope begin with; none where digests are not protected.
   * @throws {@link IdempotencyOptionsError} for a scope with more parts than the tag has.
   */
  scopePrefixes(scope: Scope): string[] {
    return this.digests.scopePrefixes(scope);
  }

  /** What is known of an abandoned record; `undefined` if this process cannot tell whose it is. */
  async originOf(abandoned: AbandonedRecord): Promise<AbandonedRequest | undefined> {
    const { recordKey, fingerprint, origin } = abandoned;
    const binding = { recordKey, fingerprint, state: 'in_progress' } as const;
    const clear = await this.outcomes.unpackOrigin(origin, binding);
    const parsed = clear === undefined ? undefined : parseOrigin(clear);
    // Another service's operation of that name may be another one.
    if (parsed === undefined || parsed.service !== this.service) return undefined;
    const { service: _, ...identity } = parsed;
    const record = { recordKey, fingerprint, ...identity };
    return this.digests.isProtected ? this.protectedRecord(record) : record;
  }

  /** An origin does not say whether its key is unique across operations, and whether it is a message's. */
  private protectedRecord(record: AbandonedRequest): AbandonedRequest | undefined {
    const { scope, key, recordKey } = record;
    for (const operation of [record.operation, undefined]) {
      for (const caller of [scope, scope.slice(1)]) {
        const names = this.digests.names({ scope, caller, operation, key });
        const others = names.filter((name) => name.recordKey !== recordKey);
        if (others.length === names.length) continue;
        const plainKey = this.digests.recordKey(scope, operation, key);
        return { ...record, plainKey, ...otherNames(others) };
      }
    }
    return undefined;
  }

  /**
   * Decides what to do with a request. Waits for the attempt in progress if its options say so.
   * @param statusOf - of what a replay gives the client, for its event; called where one is made.
   */
  async begin(
    request: OperationRequest,
    statusOf?: (outcome: Outcome) => number,
  ): Promise<Decision> {
    const { attempts } = this.services;
    let at = request;
    let token = this.tokens.next();
    attempts.enter();
    let decision: Decision | Moved;
    for (let moves = request.otherNames?.length ?? 0; ; moves -= 1) {
      try {
        decision = await this.protocol.begin(at, token);
      } catch (error) {
        decision = this.withoutStore(at, token, asError(error));
      }
      if (decision.kind !== 'moved') break;
      at = decision.request;
      token = this.tokens.next();
      // By way of all names, and back: then another process does so, too.
      if (moves === 0) {
        decision = rejectDecision('in_progress');
        break;
      }
    }
    if (
      decision.kind === 'reject' &&
      isInProgress(decision) &&
      request.options.duplicates.mode === 'wait'
    ) {
      decision = await this.duplicateWaiters.wait(at, token);
    }
    attempts.leave();
    if (decision.kind !== 'run') this.report(request, decision, statusOf);
    return decision;
  }

  /**
   * Rejects new requests. Resolves when all attempts have ended and all outcomes are stored, or after
   * `limits.shutdownTimeout`.
   * @returns how many attempts are still running. Their keys become free with their leases.
   */
  drain(): Promise<number> {
    const drained = this.services.attempts.drain();
    this.duplicateWaiters.wake();
    return drained;
  }

  /** The attempts that have not ended. */
  running(): Iterable<KeptAttempt> {
    return this.services.attempts.all();
  }

  /** The duplicates that wait for one. */
  waiting(): Iterable<OperationRequest> {
    return this.duplicateWaiters.requests();
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
    this.events.optionFailed({ operation, transport }, option, error);
  }

  private withoutStore(request: OperationRequest, token: OwnerToken, error: Error): Decision {
    const { attempts } = this.services;
    const decision = this.protocol.reportUnavailable(request, error);
    const wasNotExecuted = hasCode(error, 'idempotency_store_unavailable');
    // Only on an outage: a wrong password or a bug of the store must not disable protection.
    const isOutage = wasNotExecuted || hasCode(error, 'idempotency_store_outcome_unknown');
    const mayRun =
      isOutage &&
      request.options.storeErrors.whenUnavailable === 'execute' &&
      !attempts.shutdown.hasBegun;
    if (mayRun && attempts.admits(request, false)) return this.unprotected(request, token);
    // The begin without a reply may have acquired the record.
    if (!wasNotExecuted) void this.protocol.releaseUnowned(request, token);
    return mayRun ? rejectDecision('too_many_attempts') : decision;
  }

  /** @param token - of the begin that got no reply, which may have acquired the record. */
  private unprotected(request: OperationRequest, token: OwnerToken): Decision {
    const { services } = this;
    const now = this.clock.now();
    const lease = { recordKey: request.recordKey, token, fence: UNKNOWN_FENCE };
    const endingOf = (attempt: EngineAttempt) => new UnprotectedEnding(attempt);
    const attempt = new EngineAttempt(services, request, lease, FIRST, now, endingOf);
    void attempt.start(now);
    services.attempts.keep(attempt, now);
    return { kind: 'run', attempt };
  }

  private report(
    request: OperationRequest,
    decision: Exclude<Decision, { kind: 'run' }>,
    statusOf?: (outcome: Outcome) => number,
  ): void {
    const { events } = this;
    const isReplay = decision.kind === 'replay';
    if (!events.wants(isReplay ? 'replayed' : 'rejected')) {
      if (isReplay) events.counter.replayed(request);
      else events.counter.rejected(request, decision.reason);
      return;
    }
    const { operation, transport, recordKey } = request;
    const about = { operation, transport, recordKey, trace: decision.trace };
    if (isReplay) {
      const { state, outcome } = decision;
      events.emit({ type: 'replayed', ...about, state, status: statusOf?.(outcome) });
    } else events.emit({ type: 'rejected', ...about, reason: decision.reason });
  }
}

function otherNames(names: readonly RecordName[]): Pick<OperationRequest, 'otherNames'> {
  return names.length === 0 ? {} : { otherNames: names };
}
