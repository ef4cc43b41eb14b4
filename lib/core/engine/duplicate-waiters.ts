import type { OperationRequest } from '../operation/operation-request.js';
import type { IdempotencyEvents } from '../record/events.js';
import type { OwnerToken } from '../record/record.js';
import type { IdempotencyStore, StopWatching } from '../store/idempotency-store.js';
import { asError, hasCode, isRejection } from '../util/errors.js';
import { jittered, monotonicNow } from '../util/time.js';
import { isInProgress, rejectDecision, type Decision } from './decision.js';

/** What those who wait need of the engine. */
interface WaitServices {
  readonly store: IdempotencyStore;
  /**
   * Asks the store once.
   *
   * @throws whatever kept the store from answering.
   */
  beginOnce(request: OperationRequest, token: OwnerToken): Promise<Decision>;
  /** Tells of a store that cannot be asked. */
  reportUnavailable(request: OperationRequest, error: Error): Decision;
  /** Releases what a begin without a reply may have acquired. */
  releaseUnowned(request: OperationRequest, token: OwnerToken): void;
}

interface Waiter {
  readonly request: OperationRequest;
  readonly token: OwnerToken;
  /** Monotonic. */
  readonly giveUpAt: number;
  readonly resolve: (decision: Decision) => void;
  /** Hears that the caller has left. */
  readonly leave: () => void;
  /** A begin of its own had no reply: the record may be its own. */
  isUnsure: boolean;
}

/** How long the line sleeps between two looks at a record whose end nobody tells of: growing. */
const POLL_PAUSE_MS = 20;
const POLL_PAUSE_MAX_MS = 250;

/** The same where the store tells of it: only for what is never told, a push that was lost or a worker that died. */
const SAFETY_NET_PAUSE_MS = 500;

/**
 * Duplicates of one request, in one process, that wait for the attempt in progress. The first of them asks
 * for all: what it learns of the record holds for everyone, and should it acquire the record, it leaves to
 * run and the next one asks.
 */
class WaitQueue {
  private readonly waiters = new Set<Waiter>();
  private readonly wakeSignal = new WakeSignal();
  private isPolling = false;
  private isWatched = false;
  private hasFailed = false;
  private asking: Waiter | undefined;
  /** Monotonic instant of the next look. */
  private sleepsUntil = -Infinity;

  /** @param onEmpty - the last one has left, nobody joins any more. */
  constructor(
    private readonly host: WaitServices,
    private readonly onEmpty: () => void,
  ) {}

  join(request: OperationRequest, token: OwnerToken, giveUpAt: number): Promise<Decision> {
    return new Promise((resolve) => {
      const leave = () => {
        this.leave(waiter);
      };
      const waiter: Waiter = { request, token, giveUpAt, resolve, leave, isUnsure: false };
      this.waiters.add(waiter);
      request.clientSignal?.addEventListener('abort', leave);
      // Less patient than the others, for whom the line may be asleep.
      if (giveUpAt < this.sleepsUntil) this.wakeSignal.notify();
      if (!this.isPolling) void this.poll(request);
    });
  }

  /** Makes the first one look at the record now. */
  wake(): void {
    this.wakeSignal.notify();
  }

  private async poll(request: OperationRequest): Promise<void> {
    this.isPolling = true;
    const watching = this.watch(request);
    let pauseMs = POLL_PAUSE_MS;
    while (this.waiters.size > 0) {
      const restMs = jittered(this.isWatched ? SAFETY_NET_PAUSE_MS : pauseMs);
      const sleepMs = Math.min(restMs, this.timeLeftMs());
      this.sleepsUntil = monotonicNow() + sleepMs;
      await this.wakeSignal.wait(sleepMs);
      await this.pollOnce();
      pauseMs = Math.min(pauseMs * 1.5, POLL_PAUSE_MAX_MS);
    }
    this.onEmpty();
    await this.stopWatching(watching);
  }

  private async stopWatching(watching: Promise<StopWatching | undefined>): Promise<void> {
    try {
      (await watching)?.();
    } catch {
      // Nobody listens any more; a store of the user's own may fail to see to it.
    }
  }

  /** The one who asks at this moment stays until it is answered: the record may be its own. */
  private leave(waiter: Waiter): void {
    if (!this.waiters.has(waiter) || waiter === this.asking) return;
    this.dismiss(waiter, rejectDecision('in_progress'));
    if (this.waiters.size === 0) this.wakeSignal.notify();
  }

  /** The record may have ended before the watch began, so that its beginning is a reason to look, too. */
  private async watch({ recordKey, options }: OperationRequest): Promise<StopWatching | undefined> {
    const { commandTimeoutMs: timeoutMs } = options;
    const notify = () => {
      this.wakeSignal.notify();
    };
    try {
      const stop = await this.host.store.watch(recordKey, notify, { timeoutMs });
      this.isWatched = stop !== undefined;
      if (this.isWatched) notify();
      return stop;
    } catch {
      // Polling is slower, and right.
      return undefined;
    }
  }

  private timeLeftMs(): number {
    let giveUpAt = Infinity;
    for (const waiter of this.waiters) giveUpAt = Math.min(giveUpAt, waiter.giveUpAt);
    return giveUpAt - monotonicNow();
  }

  private async pollOnce(): Promise<void> {
    const [first] = this.waiters;
    if (first === undefined) return;
    let decision = rejectDecision('in_progress');
    this.asking = first;
    try {
      // An attempt of its own may come out of it, if the one in progress let go or died.
      decision = await this.host.beginOnce(first.request, first.token);
    } catch (error) {
      // The other one is in progress for all that is known: look again, and never run beside it.
      first.isUnsure ||= !hasCode(error, 'idempotency_store_unavailable');
      if (isRejection(error)) {
        // Free, and the store will not let it be taken: waiting does not help.
        decision = this.host.reportUnavailable(first.request, asError(error));
      } else {
        // Told once: those who wait out an outage are one more that met it.
        if (!this.hasFailed) this.host.reportUnavailable(first.request, asError(error));
        this.hasFailed = true;
      }
    }
    this.asking = undefined;
    const now = monotonicNow();
    for (const waiter of this.waiters) {
      const isAffected = waiter === first || holdsFor(waiter, first, decision);
      if (isAffected && !isInProgress(decision)) this.dismiss(waiter, decision);
      else if (waiter.giveUpAt <= now || hasLeft(waiter))
        this.dismiss(waiter, rejectDecision('in_progress'));
    }
  }

  private dismiss(waiter: Waiter, decision: Decision): void {
    const { request, token, isUnsure, resolve, leave } = waiter;
    this.waiters.delete(waiter);
    // Its signal may live on for long, with the channel of a broker say.
    request.clientSignal?.removeEventListener('abort', leave);
    if (isUnsure && decision.kind === 'reject') this.host.releaseUnowned(request, token);
    resolve(decision);
  }
}

function hasLeft({ request }: Waiter): boolean {
  return request.clientSignal?.aborted === true;
}

/** Whether what one of them was told is what the other would be told: both have the same record and fingerprint. */
function holdsFor(waiter: Waiter, asked: Waiter, decision: Decision): boolean {
  if (decision.kind !== 'reject') return decision.kind === 'replay';
  switch (decision.reason) {
    case 'mismatch':
    case 'shutting_down':
      return true;
    case 'outcome_unknown':
      return waiter.request.options.onTakeover === asked.request.options.onTakeover;
    default:
      return false;
  }
}

/** Where duplicates wait for attempts in progress: one line for each request, and so many places in all. */
export class DuplicateWaiters {
  private readonly queues = new Map<string, WaitQueue>();
  private waiters = 0;

  constructor(
    private readonly host: WaitServices,
    private readonly events: IdempotencyEvents,
    private readonly maxWaiters: number,
  ) {}

  /** @returns the first one's outcome, an attempt of its own, or a rejection. */
  async wait(request: OperationRequest, token: OwnerToken): Promise<Decision> {
    const { operation, recordKey, options } = request;
    const timeoutMs = Math.min(options.waitTimeoutMs, request.waitAtMostMs ?? Infinity);
    const isPointless = timeoutMs === 0 || request.clientSignal?.aborted === true;
    if (this.waiters >= this.maxWaiters || isPointless) return rejectDecision('in_progress');
    const startedAt = monotonicNow();
    this.waiters += 1;
    const decision = await this.queueFor(request).join(request, token, startedAt + timeoutMs);
    this.waiters -= 1;
    const waitedMs = monotonicNow() - startedAt;
    this.events.emit({ type: 'waited', operation, recordKey, waitedMs });
    return decision;
  }

  /** Lets everybody ask again at once. */
  wake(): void {
    for (const queue of this.queues.values()) queue.wake();
  }

  private queueFor({ recordKey, fingerprint }: OperationRequest): WaitQueue {
    const name = `${recordKey} ${fingerprint}`;
    let queue = this.queues.get(name);
    if (queue === undefined) {
      queue = new WaitQueue(this.host, () => this.queues.delete(name));
      this.queues.set(name, queue);
    }
    return queue;
  }
}

/** A pause that can be cut short. A ring that nobody hears yet is kept for the next one who listens. */
class WakeSignal {
  private isSet = false;
  private resume: (() => void) | undefined;

  notify(): void {
    this.isSet = true;
    this.resume?.();
  }

  /** Resolves at the next ring, or after `ms` milliseconds. */
  async wait(ms: number): Promise<void> {
    if (!this.isSet && ms > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.resume = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.resume = undefined;
    }
    this.isSet = false;
  }
}
