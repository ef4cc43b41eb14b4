import type { OperationRequest } from '../operation/operation-request.js';
import { UNKNOWN_FENCE, type RecordKey } from '../record/record.js';
import type { Clock } from '../util/clock.js';
import { RenewedMap } from '../util/renewed-map.js';
import { jitteredPause } from '../util/time.js';
import type { EngineAttempt } from './attempt-services.js';

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
 * The attempts of this process: which record keys it must not take over itself (protocol, rule 8), and what a shutdown
 * waits for. A begin counts from when it is sent: after a blocked event loop, a duplicate's begin is sent before the
 * first one's reply is read.
 */
export class LocalAttempts {
  readonly shutdownState = { expired: false };
  private readonly byKey = new RenewedMap<RecordKey, LocalAttempt>();
  private readonly running = new RenewedMap<EngineAttempt, LocalAttempt>();
  /** Number of begins in progress, and of background releases after begins without a reply. */
  private inProgress = 0;
  private stopping = false;

  constructor(
    private readonly shutdownTimeoutMs: number,
    private readonly clock: Clock,
  ) {}

  get isStopping(): boolean {
    return this.stopping;
  }

  /** The attempts that have not {@link ended}. */
  all(): Iterable<EngineAttempt> {
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
    const { durationMs, maxExecutionMs } = options.lease;
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
  keep(attempt: EngineAttempt, startedAt: number): void {
    const { recordKey, options } = attempt.request;
    const deadlineAt = startedAt + options.lease.maxExecutionMs;
    this.running.set(attempt, this.add(recordKey, attempt.fencingToken, deadlineAt, startedAt));
  }

  settling(attempt: EngineAttempt): void {
    const own = this.running.get(attempt);
    if (own !== undefined) own.isSettling = true;
  }

  lost(attempt: EngineAttempt): void {
    const own = this.running.get(attempt);
    if (own !== undefined) this.remove(own);
  }

  ended(attempt: EngineAttempt): void {
    this.lost(attempt);
    this.running.delete(attempt);
  }

  /**
   * Whether an attempt of the key is in progress. With `hasRecovery`, one whose operation has ended does not count.
   * @param except - a begin that asks for itself.
   */
  has(recordKey: RecordKey, hasRecovery: boolean, except?: LocalAttempt): boolean {
    return this.mayOwn(recordKey, hasRecovery, undefined, except);
  }

  /**
   * Whether an attempt in progress may hold the record with this fencing token, whose lease has expired. A begin sent a
   * moment ago does not count: else overlapping begins could defer to one another, and a dead process' record stay.
   * One with a later token counts: the reply with this token was slow, and the record has changed hands since.
   * @param fence - `undefined`: every attempt and begin in progress counts.
   */
  mayOwn(
    recordKey: RecordKey,
    hasRecovery: boolean,
    fence: number | undefined,
    except?: LocalAttempt,
  ): boolean {
    let own = this.byKey.get(recordKey);
    if (own === undefined) return false;
    const now = this.clock.now();
    for (; own !== undefined; own = own.next) {
      const counts = own !== except && now < own.deadlineAt && !(hasRecovery && own.isSettling);
      const isUnknown = own.fence === UNKNOWN_FENCE && now >= own.leaseOverAt;
      if (counts && (fence === undefined || own.fence >= fence || isUnknown)) return true;
    }
    return false;
  }

  /**
   * Lets no operation start any more. Resolves when all attempts have ended, or after `limits.shutdownTimeoutMs`.
   * @returns how many attempts are still running.
   */
  async drain(): Promise<number> {
    this.stopping = true;
    const { clock } = this;
    const giveUpAt = clock.now() + this.shutdownTimeoutMs;
    while (this.isBusy() && clock.now() < giveUpAt) await jitteredPause(DRAIN_PAUSE_MS, clock);
    this.shutdownState.expired = true;
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
