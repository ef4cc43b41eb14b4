import { AsyncResource } from 'node:async_hooks';
import { callerOf, type OperationRequest } from '../operation/operation-request.js';
import type { ResolvedLimits } from '../operation/options.js';
import type { WaitEnd } from '../record/events.js';
import type { OwnerToken, RecordKey } from '../record/record.js';
import type { StopWatching } from '../record/commands.js';
import type { Clock } from '../util/clock.js';
import { asError, hasCode, isIdempotencyError, isRejection } from '../errors/errors.js';
import { jittered } from '../util/time.js';
import {
  isInProgress,
  rejectDecision,
  type BeginProtocol,
  type Decision,
  type Moved,
} from './begin-protocol.js';
import type { OwnerTokens } from '../record/record-key.js';
import { unexpectedReply } from './checked-reply.js';
import { Shares } from './shares.js';

interface Waiter {
  /** With its token, changes where the record is found under another name. */
  request: OperationRequest;
  token: OwnerToken;
  /** Monotonic. */
  readonly giveUpAt: number;
  readonly resolve: (decision: Decision) => void;
  readonly leave: () => void;
  /** The async context of its request. */
  readonly context: AsyncResource;
  /** Its own begin got no reply: it may have acquired the record. */
  isUnsure: boolean;
}

/** Growing pause between two polls if the store does not notify. */
const POLL_PAUSE_MS = 20;
const POLL_PAUSE_MAX_MS = 250;

/** The same if the store notifies: for lost notifications and dead workers. */
const SAFETY_NET_PAUSE_MS = 500;

/**
 * The duplicates of one request that wait in this process. The first one polls for all; when it runs, the next does.
 */
class WaitQueue {
  private readonly waiters = new Set<Waiter>();
  private readonly wakeSignal = new WakeSignal();
  private isPolling = false;
  private isWatched = false;
  private hasFailed = false;
  /** The last poll began here and found the request elsewhere: two processes may step back before each other. */
  private hasSteppedBack = false;
  private polling: Waiter | undefined;
  private sleepsUntil = -Infinity;

  /** @param onEmpty - called when the last waiter has left. None may join afterwards. */
  constructor(
    private readonly protocol: BeginProtocol,
    private readonly tokens: OwnerTokens,
    private readonly onEmpty: () => void,
  ) {}

  join(request: OperationRequest, token: OwnerToken, giveUpAt: number): Promise<Decision> {
    return new Promise((resolve) => {
      const leave = () => {
        this.leave(waiter);
      };
      const context = new AsyncResource('IdempotencyWaiter');
      const waiter: Waiter = { request, token, giveUpAt, resolve, leave, context, isUnsure: false };
      this.waiters.add(waiter);
      request.clientSignal?.addEventListener('abort', leave);
      // Its timeout is earlier than the next poll.
      if (giveUpAt < this.sleepsUntil) this.wakeSignal.notify();
      if (!this.isPolling) void this.poll(request);
    });
  }

  wake(): void {
    this.wakeSignal.notify();
  }

  *requests(): Iterable<OperationRequest> {
    for (const { request } of this.waiters) yield request;
  }

  private async poll(request: OperationRequest): Promise<void> {
    this.isPolling = true;
    const watching = this.watch(request);
    let pauseMs = POLL_PAUSE_MS;
    while (this.waiters.size > 0) {
      const { clock } = this.protocol.services;
      const isTold = this.isWatched && !this.hasSteppedBack;
      const restMs = jittered(isTold ? SAFETY_NET_PAUSE_MS : pauseMs, clock);
      const sleepMs = Math.min(restMs, this.timeLeftMs());
      this.sleepsUntil = clock.now() + sleepMs;
      await this.wakeSignal.wait(sleepMs, clock);
      const polledAt = clock.now();
      await this.pollOnce();
      pauseMs = Math.min(pauseMs * 1.5, POLL_PAUSE_MAX_MS);
      // Longer than the steps of both, however slow the store is, or they meet again.
      if (this.hasSteppedBack) pauseMs = Math.max(pauseMs, 4 * (clock.now() - polledAt));
    }
    this.onEmpty();
    await this.stopWatching(request, watching);
  }

  private async stopWatching(
    request: OperationRequest,
    watching: Promise<StopWatching | undefined>,
  ): Promise<void> {
    try {
      (await watching)?.();
    } catch (error) {
      // No waiter is left, but a custom store may keep what it could not stop.
      this.watchFailed(request, error);
    }
  }

  private watchFailed({ operation, transport, recordKey }: OperationRequest, error: unknown): void {
    const { events } = this.protocol.services;
    events.optionFailed({ operation, transport, recordKey }, 'store.watch', error);
  }

  /** A waiter that is polling stays until the reply: it may have acquired the record. */
  private leave(waiter: Waiter): void {
    if (!this.waiters.has(waiter) || waiter === this.polling) return;
    this.dismiss(waiter, rejectDecision('in_progress'));
    if (this.waiters.size === 0) this.wakeSignal.notify();
  }

  /** Polls once watching has begun, too: the record may have ended before. Under other names, it may end there. */
  private async watch(request: OperationRequest): Promise<StopWatching | undefined> {
    const { recordKey, otherNames } = request;
    if (otherNames === undefined) return this.watchName(request, recordKey);
    const names = [recordKey, ...otherNames.map((other) => other.recordKey)];
    const stops = await Promise.all(names.map((name) => this.watchName(request, name)));
    return () => {
      for (const stop of stops) stop?.();
    };
  }

  private async watchName(
    request: OperationRequest,
    recordKey: RecordKey,
  ): Promise<StopWatching | undefined> {
    const { commandTimeout: timeoutMs } = request.options.storeErrors;
    // Each step back is a release, which both who wait are told: woken by it, they would do the same again, at once.
    const notify = () => {
      if (!this.hasSteppedBack) this.wakeSignal.notify();
    };
    const { store, events } = this.protocol.services;
    try {
      const stop = await events.counted(
        'watch',
        () => store.watch(recordKey, notify, { timeoutMs }),
        checkWatching,
      );
      this.isWatched = stop !== undefined;
      if (this.isWatched) notify();
      return stop;
    } catch (error) {
      // Polling alone is slower, but correct. That the store is unavailable shows at the next poll.
      if (!isIdempotencyError(error)) this.watchFailed(request, error);
      return undefined;
    }
  }

  private timeLeftMs(): number {
    let giveUpAt = Infinity;
    for (const waiter of this.waiters) giveUpAt = Math.min(giveUpAt, waiter.giveUpAt);
    return giveUpAt - this.protocol.services.clock.now();
  }

  private async pollOnce(): Promise<void> {
    const [first] = this.waiters;
    if (first === undefined) return;
    this.polling = first;
    // Its attempt may begin: not in the context of the request that polled first.
    let found: Decision | Moved;
    try {
      found = await first.context.runInAsyncScope(() =>
        this.protocol.begin(first.request, first.token),
      );
    } catch (error) {
      found = this.failed(first, asError(error));
    }
    this.polling = undefined;
    this.hasSteppedBack = found.kind === 'moved';
    if (this.hasSteppedBack) this.wakeSignal.forget();
    const decision = found.kind === 'moved' ? this.moved(first, found) : found;
    const now = this.protocol.services.clock.now();
    for (const waiter of this.waiters) {
      const isAffected = waiter === first || appliesTo(waiter, first, decision);
      if (isAffected && !isInProgress(decision)) this.dismiss(waiter, decision);
      else if (waiter.giveUpAt <= now || hasLeft(waiter.request)) {
        this.dismiss(waiter, isInProgress(decision) ? decision : rejectDecision('in_progress'));
      }
    }
  }

  /** As far as known, it is in progress there: the next poll shows. What was begun here has been released. */
  private moved(polled: Waiter, { request }: Moved): Decision {
    polled.request = request;
    polled.token = this.tokens.next();
    polled.isUnsure = false;
    return rejectDecision('in_progress');
  }

  /** As far as known, the other attempt is still in progress: poll again, and never run concurrently. */
  private failed(polled: Waiter, error: Error): Decision {
    polled.isUnsure ||= !hasCode(error, 'idempotency_store_unavailable');
    // The record is free, but the store rejects the write: waiting does not help.
    if (isRejection(error)) return this.protocol.reportUnavailable(polled.request, error);
    if (!this.hasFailed) this.protocol.reportUnavailable(polled.request, error);
    this.hasFailed = true;
    return rejectDecision('in_progress');
  }

  private dismiss(waiter: Waiter, decision: Decision): void {
    const { request, token, isUnsure, resolve, leave } = waiter;
    this.waiters.delete(waiter);
    // Its signal may live long, for example with a broker's channel.
    request.clientSignal?.removeEventListener('abort', leave);
    if (isUnsure && decision.kind === 'reject') void this.protocol.releaseUnowned(request, token);
    resolve(decision);
  }
}

/** @throws TypeError for what a custom store may return. */
function checkWatching(stop: unknown): void {
  if (stop !== undefined && typeof stop !== 'function') throw unexpectedReply('watch');
}

function hasLeft({ clientSignal }: OperationRequest): boolean {
  return clientSignal?.aborted === true;
}

function waitEndOf(decision: Decision, request: OperationRequest): WaitEnd {
  if (decision.kind === 'replay') return 'outcome';
  if (isInProgress(decision)) return hasLeft(request) ? 'caller_gone' : 'timeout';
  const isStopping = decision.kind === 'reject' && decision.reason === 'shutting_down';
  return isStopping ? 'shutdown' : 'released';
}

/** Whether a decision for one waiter also applies to another one of the same record and fingerprint. */
function appliesTo(waiter: Waiter, polled: Waiter, decision: Decision): boolean {
  if (decision.kind !== 'reject') return decision.kind === 'replay';
  switch (decision.reason) {
    case 'mismatch':
    case 'outcome_unreadable':
    case 'outcome_unavailable':
    case 'shutting_down':
      return true;
    case 'outcome_unknown':
      return waiter.request.options.lease.onTakeover === polled.request.options.lease.onTakeover;
    default:
      return false;
  }
}

/** What a key and a caller may have of all waiting places, unless `limits` says it. */
const SHARE_OF_KEY = 1 / 10;
const SHARE_OF_CALLER = 1 / 4;

function shareOf(maxWaiters: number, share: number): number {
  return Math.max(1, Math.floor(maxWaiters * share));
}

/** Where duplicates wait for attempts in progress: one queue per request, as many as `limits` allows. */
export class DuplicateWaiters {
  private readonly queues = new Map<string, WaitQueue>();
  private readonly maxWaiters: number;
  private readonly ofKeys: Shares;
  private readonly ofCallers: Shares;
  private waiters = 0;

  constructor(
    private readonly protocol: BeginProtocol,
    private readonly tokens: OwnerTokens,
    { maxWaiters, maxWaitersPerKey, maxWaitersPerCaller }: ResolvedLimits,
  ) {
    this.maxWaiters = maxWaiters;
    this.ofKeys = new Shares(maxWaitersPerKey ?? shareOf(maxWaiters, SHARE_OF_KEY));
    this.ofCallers = new Shares(maxWaitersPerCaller ?? shareOf(maxWaiters, SHARE_OF_CALLER));
  }

  async wait(request: OperationRequest, token: OwnerToken): Promise<Decision> {
    const { recordKey, options } = request;
    const timeoutMs = Math.min(options.duplicates.timeout, request.waitAtMostMs ?? Infinity);
    if (timeoutMs === 0 || hasLeft(request)) return rejectDecision('in_progress');
    const caller = callerOf(request);
    const full = this.whatIsFull(recordKey, caller);
    if (full !== undefined) {
      this.waited(request, 0, full);
      return rejectDecision('in_progress');
    }
    const startedAt = this.protocol.services.clock.now();
    this.waiters += 1;
    this.ofKeys.take(recordKey);
    this.ofCallers.take(caller);
    const decision = await this.queueFor(request).join(request, token, startedAt + timeoutMs);
    this.waiters -= 1;
    this.ofKeys.giveBack(recordKey);
    this.ofCallers.giveBack(caller);
    this.waited(
      request,
      this.protocol.services.clock.now() - startedAt,
      waitEndOf(decision, request),
    );
    return decision;
  }

  private whatIsFull(recordKey: RecordKey, caller: string | undefined): WaitEnd | undefined {
    if (this.ofKeys.isFull(recordKey)) return 'key_full';
    if (this.ofCallers.isFull(caller)) return 'caller_full';
    return this.waiters >= this.maxWaiters ? 'process_full' : undefined;
  }

  private waited(request: OperationRequest, waitedMs: number, end: WaitEnd): void {
    const { operation, transport, recordKey } = request;
    const about = { operation, transport, recordKey, waitedMs, end };
    this.protocol.services.events.emit({ type: 'waited', ...about });
  }

  *requests(): Iterable<OperationRequest> {
    for (const queue of this.queues.values()) yield* queue.requests();
  }

  wake(): void {
    for (const queue of this.queues.values()) queue.wake();
  }

  private queueFor({ recordKey, fingerprint }: OperationRequest): WaitQueue {
    const name = `${recordKey} ${fingerprint}`;
    let queue = this.queues.get(name);
    if (queue === undefined) {
      queue = new WaitQueue(this.protocol, this.tokens, () => this.queues.delete(name));
      this.queues.set(name, queue);
    }
    return queue;
  }
}

/** Ends a wait early. A signal before the wait is remembered. */
class WakeSignal {
  private isSet = false;
  private resume: (() => void) | undefined;

  notify(): void {
    this.isSet = true;
    this.resume?.();
  }

  forget(): void {
    this.isSet = false;
  }

  async wait(ms: number, clock: Clock): Promise<void> {
    if (!this.isSet && ms > 0) {
      await new Promise<void>((resolve) => {
        const timer = clock.setTimeout(resolve, ms, undefined);
        this.resume = () => {
          clock.clearTimeout(timer);
          resolve();
        };
      });
      this.resume = undefined;
    }
    this.isSet = false;
  }
}
