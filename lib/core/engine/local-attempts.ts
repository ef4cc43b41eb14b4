import type { Attempt } from '../operation/attempt.js';
import { executionScope } from '../operation/execution-scope.js';
import { callerOf, type OperationRequest } from '../operation/operation-request.js';
import type { ResolvedLimits } from '../operation/options.js';
import type { AttemptSubject } from '../record/events.js';
import { UNKNOWN_FENCE, type RecordKey } from '../record/record.js';
import type { Clock } from '../util/clock.js';
import { jitteredPause } from '../util/time.js';
import { Shares } from './shares.js';

/** An attempt as it is kept until it has ended. */
export interface KeptAttempt extends Attempt {
  readonly request: OperationRequest;
  readonly subject: AttemptSubject;
  /** Milliseconds since its begin was sent. */
  readonly elapsedMs: number;
  /** Milliseconds, negative once the lease has expired; `undefined` without a lease that is extended. */
  readonly leaseLeftMs: number | undefined;
}

/** A begin that this process has sent, or its attempt. */
interface LocalAttempt {
  readonly recordKey: RecordKey;
  /** {@link UNKNOWN_FENCE} before the reply. */
  readonly fence: number;
  /** Monotonic. At its hard deadline an attempt loses its key, also to this process. */
  readonly deadlineAt: number;
  /** Monotonic. Its own lease cannot expire earlier. */
  readonly leaseOverAt: number;
  isSettling: boolean;
  /** The others of its key. Not in a set: one for each key costs a replay a sixth of the engine's time. */
  previous: LocalAttempt | undefined;
  next: LocalAttempt | undefined;
}

const DRAIN_PAUSE_MS = 20;

/**
 * The attempts of this process: which record keys it must not take over itself (protocol, rule 8), how many each caller
 * has, and what a shutdown waits for. A begin counts from when it is sent: after a blocked event loop, a duplicate's
 * begin is sent before the first one's reply is read.
 */
export class LocalAttempts {
  /**
   * `hasBegun`: no operation starts any more. `isOver`: the shutdown no longer waits, and records that are not settled by
   * then are left to their leases.
   */
  readonly shutdown = { hasBegun: false, isOver: false };
  private readonly byKey = new RenewedMap<RecordKey, LocalAttempt>();
  private readonly running = new RenewedMap<KeptAttempt, LocalAttempt>();
  /** Number of begins in progress, and of background releases after begins without a reply. */
  private inProgress = 0;
  private readonly shutdownTimeoutMs: number;
  private readonly places: Shares | undefined;
  /** The callers of those that have a place. */
  private readonly callers = new Map<OperationRequest, string>();

  constructor(
    {
      shutdownTimeout,
      maxAttemptsPerCaller: max,
    }: Pick<ResolvedLimits, 'shutdownTimeout' | 'maxAttemptsPerCaller'>,
    private readonly clock: Clock,
  ) {
    this.shutdownTimeoutMs = shutdownTimeout;
    this.places = max === undefined ? undefined : new Shares(max);
  }

  /** The attempts that have not {@link ended}. */
  all(): Iterable<KeptAttempt> {
    return this.running.keys();
  }

  /** The shutdown waits until {@link leave}. */
  enter(): void {
    this.inProgress += 1;
  }

  leave(): void {
    this.inProgress -= 1;
  }

  /**
   * Adds a begin that is about to be sent.
   * @param sentAt - monotonic.
   * @returns it, for {@link remove} once its reply has been read.
   */
  sent({ recordKey, options }: OperationRequest, sentAt: number): LocalAttempt {
    const { duration: durationMs, maxExecution: maxExecutionMs } = options.lease;
    // Half of the lease, as the store measures it by another clock.
    const leaseOverAt = sentAt + durationMs / 2;
    return this.add(recordKey, UNKNOWN_FENCE, sentAt + maxExecutionMs, leaseOverAt);
  }

  remove(own: LocalAttempt): void {
    const { recordKey, previous, next } = own;
    if (next !== undefined) next.previous = previous;
    if (previous !== undefined) previous.next = next;
    else if (this.byKey.get(recordKey) === own) {
      if (next === undefined) this.byKey.delete(recordKey);
      else this.byKey.set(recordKey, next);
    }
    own.previous = own.next = undefined;
  }

  /**
   * Keeps an attempt until it has {@link ended}.
   * @param startedAt - monotonic, before begin was sent.
   */
  keep(attempt: KeptAttempt, startedAt: number): void {
    const { recordKey, options } = attempt.request;
    const deadlineAt = startedAt + options.lease.maxExecution;
    this.running.set(attempt, this.add(recordKey, attempt.fencingToken, deadlineAt, startedAt));
  }

  /**
   * Takes one of its caller's places (`limits.maxAttemptsPerCaller`) for an attempt, until it has {@link ended}.
   * @param isTakeover - it runs in any case: its operation has had a place, and its record must not be lost to recovery.
   * @returns `false` if its caller has all places.
   */
  admits(request: OperationRequest, isTakeover: boolean): boolean {
    const { places } = this;
    if (places === undefined) return true;
    // The reconciler serves no caller, and what an operation calls is part of it: else operations could block each other.
    if (request.transport === undefined || executionScope.getStore() !== undefined) return true;
    const caller = callerOf(request);
    if (caller === undefined) return true;
    if (!isTakeover && places.isFull(caller)) return false;
    places.take(caller);
    this.callers.set(request, caller);
    return true;
  }

  /** The operation has ended, and its outcome is being stored. */
  settling(attempt: KeptAttempt): void {
    const own = this.running.get(attempt);
    if (own !== undefined) own.isSettling = true;
  }

  /** The attempt can no longer have an effect, though its operation may still be running. */
  lost(attempt: KeptAttempt): void {
    const own = this.running.get(attempt);
    if (own !== undefined) this.remove(own);
  }

  /** The attempt has ended, including its last save. */
  ended(attempt: KeptAttempt): void {
    this.lost(attempt);
    this.running.delete(attempt);
    if (this.places === undefined) return;
    this.places.giveBack(this.callers.get(attempt.request));
    this.callers.delete(attempt.request);
  }

  /**
   * Whether an attempt of the key is in progress. With `hasRecovery`, one whose operation has ended does not count.
   * @param now - monotonic.
   * @param except - a begin that asks for itself.
   */
  has(recordKey: RecordKey, hasRecovery: boolean, now: number, except?: LocalAttempt): boolean {
    return this.isOwned(recordKey, hasRecovery, undefined, now, except);
  }

  /**
   * Whether an attempt in progress may hold the record with this fencing token, whose lease has expired. A begin sent a
   * moment ago does not count: else overlapping begins could defer to one another, and a dead process' record stay.
   * One with a later token counts: the reply with this token was slow, and the record has changed hands since.
   */
  mayOwn(recordKey: RecordKey, hasRecovery: boolean, fence: number): boolean {
    return this.isOwned(recordKey, hasRecovery, fence, this.clock.now());
  }

  /** @param fence - `undefined`: every attempt and begin in progress counts. */
  private isOwned(
    recordKey: RecordKey,
    hasRecovery: boolean,
    fence: number | undefined,
    now: number,
    except?: LocalAttempt,
  ): boolean {
    for (let own = this.byKey.get(recordKey); own !== undefined; own = own.next) {
      const counts = own !== except && now < own.deadlineAt && !(hasRecovery && own.isSettling);
      const isUnknown = own.fence === UNKNOWN_FENCE && now >= own.leaseOverAt;
      if (counts && (fence === undefined || own.fence >= fence || isUnknown)) return true;
    }
    return false;
  }

  /**
   * Lets no operation start any more. Resolves when all attempts have ended, or after `limits.shutdownTimeout`.
   * @returns how many attempts are still running.
   */
  async drain(): Promise<number> {
    this.shutdown.hasBegun = true;
    const { clock } = this;
    const giveUpAt = clock.now() + this.shutdownTimeoutMs;
    while (this.isBusy() && clock.now() < giveUpAt) await jitteredPause(DRAIN_PAUSE_MS, clock);
    this.shutdown.isOver = true;
    for (const { transaction } of this.running.keys()) transaction?.giveUp();
    return this.running.size;
  }

  private isBusy(): boolean {
    return this.running.size > 0 || this.inProgress > 0;
  }

  private add(
    recordKey: RecordKey,
    fence: number,
    deadlineAt: number,
    leaseOverAt: number,
  ): LocalAttempt {
    const next = this.byKey.get(recordKey);
    const own: LocalAttempt = {
      recordKey,
      fence,
      deadlineAt,
      leaseOverAt,
      isSettling: false,
      previous: undefined,
      next,
    };
    if (next !== undefined) next.previous = own;
    this.byKey.set(recordKey, own);
    return own;
  }
}

/** Fewer would cost more than they save. */
const MIN_ENTRIES = 1_000;

/**
 * A map of which every request adds an entry and deletes it. Each time a `Map` outgrows its table, it leaves the old one
 * with a reference to the new one. Once one of them is in V8's old generation, it keeps all later ones, and what they
 * hold, from being collected with the young generation. So another `Map` takes over, from time to time. With this and
 * the list of deadlines, a collection of 46 MB takes 2 ms in place of 7 while first requests are served (Node 24, 64
 * connections).
 */
export class RenewedMap<Key, Value> {
  private entries = new Map<Key, Value>();
  private added = 0;

  get size(): number {
    return this.entries.size;
  }

  get(key: Key): Value | undefined {
    return this.entries.get(key);
  }

  set(key: Key, value: Value): void {
    this.added += 1;
    if (this.added > MIN_ENTRIES && this.added > this.entries.size) {
      this.entries = new Map(this.entries);
      this.added = 0;
    }
    this.entries.set(key, value);
  }

  delete(key: Key): void {
    this.entries.delete(key);
  }

  keys(): MapIterator<Key> {
    return this.entries.keys();
  }
}
