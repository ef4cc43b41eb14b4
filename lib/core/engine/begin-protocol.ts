import type { Attempt } from '../operation/attempt.js';
import { originOf, type OperationRequest } from '../operation/operation-request.js';
import { inProgressRetentionMs, unfinishedRetentionMs } from '../operation/options.js';
import { FRAME_HEADER } from '../payload/outcome-transform.js';
import { traceIn } from '../record/annotations.js';
import type { RejectionReason } from '../record/events.js';
import {
  UNKNOWN_FENCE,
  type FinishedState,
  type ReadableOutcome,
  type OwnerToken,
} from '../record/record.js';
import type { Acquisition, Begin, BeginReply } from '../record/commands.js';
import type { RecordName } from '../record/digests.js';
import type { Telemetries } from '../telemetry/telemetries.js';
import {
  hasCode,
  isRejection,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../errors/errors.js';
import { ServerClock } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { EngineAttempt } from './attempt.js';
import { unexpectedReply } from './checked-reply.js';
import {
  lookElsewhere,
  mayBeElsewhere,
  movedTo,
  UNUSED_TOMBSTONE_MS,
  type Elsewhere,
} from './other-names.js';
import { unpacked } from './packed-outcomes.js';
import { TransactionalEnding, type Transactions } from './transactional-ending.js';

export type Decision =
  | { readonly kind: 'run'; readonly attempt: Attempt }
  | {
      readonly kind: 'replay';
      readonly state: FinishedState;
      readonly outcome: ReadableOutcome;
      readonly trace: string | undefined;
    }
  | {
      readonly kind: 'reject';
      readonly reason: RejectionReason;
      /** Of the attempt in progress. */
      readonly trace: string | undefined;
    };

/** The record is under another name: the own one was released, and the request goes on there. With a new owner token. */
export interface Moved {
  readonly kind: 'moved';
  readonly request: OperationRequest;
}

export function rejectDecision(reason: RejectionReason, trace?: string): Decision {
  return { kind: 'reject', reason, trace };
}

export function isInProgress(decision: Decision | Moved): boolean {
  return decision.kind === 'reject' && decision.reason === 'in_progress';
}

/** `note`: of the record that is taken over. */
type Begun = Acquisition & { readonly note?: string };

/** Sends begin, decides by the store's reply (protocol, rules 0, 4 and 8), and starts the attempt. */
export class BeginProtocol {
  private readonly serverClock = new ServerClock();

  constructor(
    readonly services: AttemptServices,
    private readonly transactions: {
      readonly [Part in keyof Transactions]: Transactions[Part] | undefined;
    },
    private readonly telemetry: Telemetries,
    private readonly service: string | undefined,
  ) {}

  /**
   * Sends begin once, and again if it was late. Rejects if the store gives no reply.
   * @param onExpiredLease - in place of what the operation says, while no other attempt of this process has the key.
   */
  async begin(
    request: OperationRequest,
    token: OwnerToken,
    onExpiredLease?: Begin['onExpiredLease'],
  ): Promise<Decision | Moved> {
    const { attempts, events, clock } = this.services;
    if (this.isStopping()) return rejectDecision('shutting_down');
    const { recordKey } = request;
    const recovers = hasRecovery(request);
    const sentAt = clock.now();
    const begun = attempts.sent(request, sentAt);
    const isTaken =
      onExpiredLease === undefined && attempts.has(recordKey, recovers, sentAt, begun);
    let action = isTaken ? 'deny' : (onExpiredLease ?? expiredLeaseAction(request));
    let now = sentAt;
    let reply: BeginReply;
    let elsewhere: Elsewhere | undefined;
    try {
      reply = await this.send(request, token, action, now);
      let repliedAt = this.observed(reply, now);
      // The server's clock may have jumped since the last reply, for example by a failover: send once more.
      if (reply.kind === 'late') {
        now = repliedAt;
        // Another begin of this process may have acquired the record meanwhile.
        if (attempts.has(recordKey, recovers, now, begun)) action = 'deny';
        reply = await this.send(request, token, action, now);
        repliedAt = this.observed(reply, now);
      }
      now = repliedAt;
      if (request.otherNames !== undefined && mayBeElsewhere(reply)) {
        elsewhere = await lookElsewhere(this.services, request, reply);
        now = clock.now();
      }
    } catch (error) {
      events.counter.commandFailed('begin', now, error);
      throw error;
    } finally {
      attempts.remove(begun);
    }
    if (elsewhere?.kind === 'moved') return this.moved(request, token, reply, elsewhere.name);
    switch (reply.kind) {
      case 'acquired':
      case 'owned':
      case 'takeover': {
        if (elsewhere?.kind === 'failed') throw unknownElsewhere(elsewhere.error);
        const attempt = this.attemptOf(request, token, withEarlier(reply, elsewhere), sentAt);
        if (!attempts.admits(request, attempt.isTakeover)) {
          await attempt.discard();
          return rejectDecision('too_many_attempts');
        }
        const starting = attempt.start(now);
        const trouble = starting instanceof Promise ? await starting : starting;
        if (trouble === undefined && !this.isStopping()) return { kind: 'run', attempt };
        await attempt.discard();
        return trouble === undefined
          ? rejectDecision('shutting_down')
          : this.reportUnavailable(request, trouble);
      }
      case 'completed':
      case 'failed': {
        const { kind: state, retentionLeftMs } = reply;
        const trace = traceIn(reply.note);
        let outcome: ReadableOutcome = reply.outcome;
        if (outcome.header === FRAME_HEADER) {
          const content = await unpacked(this.services, request, state, outcome, retentionLeftMs);
          if (typeof content === 'string') return rejectDecision(content, trace);
          outcome = content;
        }
        return { kind: 'replay', state, outcome, trace };
      }
      case 'mismatch':
        return elsewhere?.kind === 'failed'
          ? this.reportUnavailable(request, elsewhere.error)
          : rejectDecision('mismatch');
      case 'in_progress':
        return rejectDecision('in_progress', traceIn(reply.note));
      case 'abandoned': {
        if (attempts.mayOwn(recordKey, recovers, reply.fence)) {
          return rejectDecision('in_progress', traceIn(reply.note));
        }
        const requested = expiredLeaseAction(request);
        // Another process has taken the record over, or this one's attempt has reached its hard deadline.
        return action === requested
          ? rejectDecision('outcome_unknown')
          : this.begin(request, token, requested);
      }
      case 'late':
        throw new StoreUnavailableError(
          'The store received begin too late, twice. Its clock is unsteady, or the latency to it exceeds "storeErrors.commandTimeout".',
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

  /** Releases what was acquired here first: who looks for this record must not find two in progress. */
  private async moved(
    request: OperationRequest,
    token: OwnerToken,
    reply: BeginReply,
    name: RecordName,
  ): Promise<Decision | Moved> {
    if (isAcquired(reply)) {
      const { takeovers } = reply;
      await this.releaseUnowned(request, token, takeovers === 0 ? UNUSED_TOMBSTONE_MS : undefined);
    }
    const next = movedTo(request, name);
    return next === undefined ? rejectDecision('in_progress') : { kind: 'moved', request: next };
  }

  /** A method, because the compiler does not expect an await to change a property. */
  private isStopping(): boolean {
    return this.services.attempts.shutdown.hasBegun;
  }

  private attemptOf(
    request: OperationRequest,
    token: OwnerToken,
    reply: Begun,
    sentAt: number,
  ): EngineAttempt {
    const { services } = this;
    const { events } = services;
    const lease = { recordKey: request.recordKey, token, fence: reply.fence };
    const endingOf = request.options.transaction === false ? undefined : this.transactional;
    const attempt = new EngineAttempt(services, request, lease, reply, sentAt, endingOf);
    services.attempts.keep(attempt, sentAt);
    // A takeover also if the record was released since: the outcome of the earlier attempt is still unknown.
    if (attempt.isTakeover) {
      events.emit({ type: 'takeover', ...attempt.subject, trace: traceIn(reply.note) });
    } else if (events.wants('acquired')) {
      events.emit({ type: 'acquired', ...attempt.subject });
    }
    return attempt;
  }

  private readonly transactional = (attempt: EngineAttempt) => {
    const { unitOfWork, records } = this.transactions;
    // The options were checked at the start.
    if (unitOfWork === undefined || records === undefined) {
      throw new TypeError('There is no unit of work, or the store does not support transactions.');
    }
    return new TransactionalEnding(attempt, { unitOfWork, records });
  };

  /** Reports that the store did not reply, or replied too late. */
  reportUnavailable(request: OperationRequest, error: Error): Decision {
    const { operation, transport, recordKey } = request;
    const source = transport === undefined ? 'reconcile' : 'request';
    this.services.events.emit({
      type: 'store_unavailable',
      operation,
      transport,
      recordKey,
      source,
      error,
    });
    return rejectDecision('store_unavailable');
  }

  /** Releases a record that a begin without a reply may have acquired and would block for a lease. Never rejects. */
  async releaseUnowned(
    { recordKey, options }: OperationRequest,
    token: OwnerToken,
    tombstoneMs = Infinity,
  ): Promise<void> {
    const { store, events, attempts } = this.services;
    attempts.enter();
    try {
      const command = {
        tombstoneMs: Math.min(tombstoneMs, unfinishedRetentionMs(options)),
        notify: options.duplicates.mode === 'wait',
        // No request waits for it, and it may need a new connection.
        timeoutMs: options.storeErrors.saveTimeout,
      };
      await events.counted('release', () =>
        store.release({ recordKey, token, fence: UNKNOWN_FENCE }, command),
      );
    } catch {
      // Best effort, and counted: otherwise the lease expires.
      return;
    } finally {
      attempts.leave();
    }
  }

  private send(
    request: OperationRequest,
    token: OwnerToken,
    onExpiredLease: Begin['onExpiredLease'],
    now: number,
  ): Promise<BeginReply> {
    const { options, recordKey, fingerprint } = request;
    const { duration: leaseMs, maxExecution: maxExecutionMs } = options.lease;
    const { commandTimeout: commandTimeoutMs } = options.storeErrors;
    const origin = hasRecovery(request) ? this.originOf(request) : undefined;
    return this.services.store.begin({
      recordKey,
      token,
      fingerprint,
      leaseMs,
      maxExecutionMs,
      recordRetentionMs: inProgressRetentionMs(options),
      notAfter: this.serverClock.notAfter(commandTimeoutMs, now),
      onExpiredLease,
      origin,
      note: this.noteOf(request),
      timeoutMs: commandTimeoutMs,
    });
  }

  private noteOf({ operation, key }: OperationRequest): string | undefined {
    const { annotations } = this.services;
    const trace = this.telemetry.traceOf?.();
    return annotations === undefined ? trace : annotations.noteOf(operation, key, trace);
  }

  private originOf(request: OperationRequest): string {
    const origin = originOf(request, this.service);
    const { recordKey, fingerprint, options, plainKey } = request;
    // What a record's name does not show, its origin must not show either.
    if (options.outcome.encryption === false && plainKey === undefined) return origin;
    const binding = { recordKey, fingerprint, state: 'in_progress' } as const;
    return this.services.outcomes.packOrigin(origin, binding);
  }

  /** @returns when the reply was read. */
  private observed(reply: BeginReply, sentAt: number): number {
    const now = this.services.clock.now();
    // A custom store may return anything.
    if (typeof reply !== 'object' || (reply as unknown) === null) throw unexpectedReply('begin');
    if ('now' in reply) this.serverClock.observe(reply.now, now);
    this.services.events.counter.commandReplied('begin', sentAt, now);
    return now;
  }
}

function isAcquired(reply: BeginReply): reply is Extract<BeginReply, Acquisition> {
  return reply.kind === 'acquired' || reply.kind === 'owned' || reply.kind === 'takeover';
}

/** Counts the attempts under other names, too: an outcome may still be unknown. */
function withEarlier(begun: Begun, elsewhere: Elsewhere | undefined): Begun {
  if (elsewhere?.kind !== 'clear' || elsewhere.attempts === 0) return begun;
  const attempt = begun.attempt + elsewhere.attempts;
  return { ...begun, attempt, takeovers: begun.takeovers + elsewhere.takeovers };
}

/** The begin had an effect: its record is released, or it stays the attempt's. */
function unknownElsewhere(cause: Error): Error {
  if (!hasCode(cause, 'idempotency_store_unavailable')) return cause;
  return new StoreOutcomeUnknownError(
    `The record was not looked up by its other digest keys: ${cause.message}`,
    { cause, isRejection: isRejection(cause) },
  );
}

function expiredLeaseAction({ options }: OperationRequest): Begin['onExpiredLease'] {
  return options.lease.onTakeover === 'reject' ? 'deny' : 'takeover';
}

/** Whether `lease.onTakeover` looks up what an earlier attempt has done before the operation runs again. */
function hasRecovery({ options }: OperationRequest): boolean {
  return typeof options.lease.onTakeover === 'function';
}
