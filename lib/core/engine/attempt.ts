import type {
  AttemptTransaction,
  BodySpool,
  FinalOutcome,
  Settlement,
} from '../operation/attempt.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';
import type { OperationRequest } from '../operation/operation-request.js';
import type {
  AttemptEnd,
  AttemptSubject,
  IdempotencyEvent,
  LeaseLossReason,
} from '../record/events.js';
import { noteOfEnd } from '../record/annotations.js';
import { FRAME_HEADER } from '../payload/outcome-transform.js';
import { isOffloaded, MAX_HELD_BYTES } from '../payload/pack-options.js';
import { bytesOf, type FinishedState, type Lease, type Outcome } from '../record/record.js';
import type { Acquisition, CompleteReply } from '../record/commands.js';
import type { Clock } from '../util/clock.js';
import type { AttemptServices } from './attempt-services.js';
import { UploadingBody } from './body-spool.js';
import { LeaseKeeper } from './lease-keeper.js';
import type { KeptAttempt } from './local-attempts.js';
import { completeOnceFree, sendComplete, sendRelease } from './outcome-writer.js';
import { packed, unpacked, uploadOf } from './packed-outcomes.js';

export const OWN: Settlement = { kind: 'own' };
const LOST: Settlement = { kind: 'own', isLost: true };

type LostReply = Extract<CompleteReply, { kind: 'lost' }>;

export type When = 'in time' | 'late';

/** The events of an attempt that say no more than which one it is. */
type PlainEvent =
  | 'recovered'
  | 'release_failed'
  | 'superseded'
  | 'outcome_diverged'
  | 'response_diverged'
  | 'record_lost'
  | 'save_delayed'
  | 'save_failed'
  | 'committed_apart'
  | 'conflicted';

/** How an attempt ends: by its lease, with its transaction, or without either. */
export interface AttemptEnding {
  /** What keeps other attempts from the record: a lease that heartbeats extend, the transaction's lock, or nothing. */
  readonly protection: 'lease' | 'transaction' | 'none';
  readonly transaction?: AttemptTransaction;
  /** The operation's own, while it is open. */
  readonly openTransaction?: OpenTransaction | undefined;
  /** In place of a lease to keep. @returns an error if the operation must not start. */
  start?(): Promise<Error | undefined>;
  /** See {@link EngineAttempt.complete}. */
  complete(final: FinalOutcome): Promise<Settlement>;
  /** The same with an outcome that is not packed, whose blob is put in the transaction. */
  completeWithBlob?(final: FinalOutcome): Promise<Settlement>;
  /** See {@link EngineAttempt.release}. */
  release(): Promise<void>;
  leaseLost?(): void;
}

/** The right to run an operation, until its outcome is confirmed. */
export class EngineAttempt implements KeptAttempt {
  readonly number: number;
  readonly isTakeover: boolean;
  readonly fencingToken: number;
  readonly isProtected: boolean;
  readonly transaction: AttemptTransaction | undefined;
  readonly keeper: LeaseKeeper;
  /** What it ends as if its own outcome is not stored, in place of what its last command says. */
  endsAs: 'not_started' | 'conflicted' | 'rolled_back' | undefined;
  hasStarted = false;
  private readonly ending: AttemptEnding;
  private isRecordLost = false;
  private isRecovered = false;

  /**
   * @param startedAt - monotonic, before begin was sent for the first time.
   * @param endingOf - how it ends, if not by its lease.
   */
  constructor(
    readonly services: AttemptServices,
    readonly request: OperationRequest,
    readonly lease: Lease,
    { attempt, takeovers }: Omit<Acquisition, 'now' | 'fence'>,
    private readonly startedAt: number,
    endingOf?: (attempt: EngineAttempt) => AttemptEnding,
  ) {
    const { options } = request;
    this.number = attempt;
    this.isTakeover = takeovers > 0;
    this.fencingToken = lease.fence;
    const ending: AttemptEnding = endingOf?.(this) ?? new LeasedEnding(this);
    this.ending = ending;
    this.isProtected = ending.protection !== 'none';
    this.transaction = ending.transaction;
    const extended = ending.protection === 'lease' ? lease : undefined;
    this.keeper = new LeaseKeeper(services, extended, options, startedAt, this);
  }

  get signal(): AbortSignal {
    return this.keeper.signal;
  }

  get clock(): Clock {
    return this.services.clock;
  }

  get subject(): AttemptSubject {
    const { number: attempt, fencingToken } = this;
    const { operation, transport, recordKey } = this.request;
    return { operation, transport, recordKey, attempt, fencingToken };
  }

  get elapsedMs(): number {
    return this.services.clock.now() - this.startedAt;
  }

  /** What its last command writes in front of the record's note. */
  get noteOfEnd(): string | undefined {
    return this.services.annotations === undefined ? undefined : noteOfEnd(this.elapsedMs);
  }

  get leaseLeftMs(): number | undefined {
    return this.keeper.leaseLeftMs;
  }

  /**
   * @param now - monotonic.
   * @returns an error if the operation must not start, because nothing protects it.
   */
  start(now: number): Error | undefined | Promise<Error | undefined> {
    return this.ending.start === undefined ? this.keeper.start(now) : this.ending.start();
  }

  complete(final: FinalOutcome): Promise<Settlement> {
    const { ending } = this;
    const { outcomes } = this.services;
    const { outcome: options } = this.request.options;
    const { compression, encryption, offload, bodyRetention } = options;
    const { canEncrypt, hasBlobs } = outcomes;
    const isPacked =
      compression !== false ||
      (canEncrypt && encryption !== false) ||
      (hasBlobs && offload !== false) ||
      bodyRetention !== undefined;
    if (!isPacked) return ending.complete(final);
    const isUndone = final.undo === true;
    const isJoined = () =>
      uploadOf(final)?.transaction !== undefined ||
      outcomes.joinsTransaction(final.outcome, options);
    if (!isUndone && ending.completeWithBlob && isJoined()) return ending.completeWithBlob(final);
    const completed = packed(this, final).then((stored) => ending.complete(stored));
    // Without protection, the response waits for nothing.
    return this.isProtected ? completed : Promise.resolve(OWN);
  }

  keepsBody(bytes: number): boolean {
    const { options, takesStreams } = this.request;
    const { offload, maxBytes } = options.outcome;
    const isLarge = this.services.outcomes.hasBlobs && isOffloaded(bytes, options.outcome);
    if (!isLarge || offload === false) return bytes <= maxBytes;
    // It will be read into memory.
    const most = takesStreams === true ? Infinity : MAX_HELD_BYTES;
    return bytes <= Math.min(offload.maxBytes, most);
  }

  spool(beginning: Uint8Array, retentionMs: number, isSuccess: boolean): BodySpool | undefined {
    const { services, request, ending } = this;
    // Without protection, the response waits for nothing.
    if (!this.isProtected) return undefined;
    const { outcomes } = services;
    const transaction = outcomes.blobsJoin ? ending.openTransaction : undefined;
    if (transaction !== undefined && !isSuccess) return undefined;
    const { recordKey, options } = request;
    const { token } = this.lease;
    const { maxExecution: totalMs } = options.lease;
    const owner = { recordKey, token, retentionMs, transaction };
    const started = outcomes.upload(owner, options.outcome, beginning, totalMs);
    return started && new UploadingBody(services, request, started, transaction);
  }

  release(): Promise<void> {
    return this.ending.release();
  }

  /** Releases the key of an operation that must not start. */
  discard(): Promise<void> {
    this.endsAs = 'not_started';
    return this.release();
  }

  startedUnprotected(): void {
    // An outer timeout may have responded before: what never ran is not reported.
    if (this.hasStarted) return;
    this.hasStarted = true;
    const { subject } = this;
    this.services.events.emit({ type: 'unprotected', ...subject, reason: 'store_unavailable' });
  }

  recovered(): void {
    this.isRecovered = true;
    this.emit('recovered');
  }

  responseDiverged(): void {
    this.emit('response_diverged');
  }

  optionFailed(option: string, error: unknown): void {
    const { operation, transport, recordKey } = this.request;
    this.services.events.optionFailed({ operation, transport, recordKey }, option, error);
  }

  /** @internal */
  leaseLost(reason: LeaseLossReason): void {
    // Without protection, there was none that was confirmed.
    if (!this.isProtected) return;
    this.services.events.emit({ type: 'lease_lost', ...this.subject, reason });
    if (reason === 'gone') this.recordLost();
    this.ending.leaseLost?.();
  }

  /** @internal */
  abortReason(reason: LeaseLossReason): unknown {
    return this.isProtected
      ? reason
      : new DOMException('The operation exceeded "lease.maxExecution".', 'TimeoutError');
  }

  /** @internal */
  slow(elapsedMs: number): void {
    this.services.events.emit({ type: 'slow_attempt', ...this.subject, elapsedMs });
  }

  /** Goes on with the reply to `complete`. */
  conclude(
    reply: CompleteReply,
    final: FinalOutcome,
    when: When = 'in time',
  ): Settlement | Promise<Settlement> {
    switch (reply.kind) {
      case 'ok':
      case 'ok_late':
      case 'already':
        break;
      case 'restored':
        this.recordLost();
        break;
      case 'gone':
        // A failure: the caller gets it, but it is not kept.
        this.recordLost();
        this.unsaved();
        return LOST;
      case 'superseded': {
        const { state, outcome } = reply;
        const isSuperseded = state === 'completed';
        this.emit(isSuperseded ? 'superseded' : 'outcome_diverged');
        this.end(isSuperseded ? 'superseded' : 'diverged');
        return outcome.header === FRAME_HEADER
          ? this.unpackedOther(state, outcome)
          : { kind: 'other', state, outcome };
      }
      case 'lost':
        return this.afterLoss(reply, final, when);
    }
    this.completed(final, when === 'late' || reply.kind === 'ok_late');
    this.endStored(final);
    return OWN;
  }

  private async unpackedOther(state: FinishedState, outcome: Outcome): Promise<Settlement> {
    const { services, request } = this;
    const { commandTimeout: timeoutMs } = request.options.storeErrors;
    // The reply does not have it. Without it, the outcome counts as over.
    const left = () =>
      services.store.inspect(request.recordKey, { timeoutMs }).then(
        (record) => record?.retentionLeftMs ?? 0,
        () => 0,
      );
    const content = await unpacked(services, request, state, outcome, left);
    return typeof content === 'string'
      ? { kind: content }
      : { kind: 'other', state, outcome: content };
  }

  /** The same after the response. @param late - `undefined`: there was none in time. */
  async concludeLate(late: CompleteReply | undefined, final: FinalOutcome): Promise<void> {
    if (late === undefined) this.unsaved();
    else await this.conclude(late, final, 'late');
  }

  /** Another attempt has the record: its outcome is the response, unless the key was reused for other content. */
  private async afterLoss(
    { state }: LostReply,
    final: FinalOutcome,
    when: When,
  ): Promise<Settlement> {
    this.keeper.stop();
    // Without protection, it has already waited until no attempt has the record.
    if (state === 'in_progress' && this.isProtected) {
      const giveUpAt = this.clock.now() + this.request.options.duplicates.timeout;
      const reply = await completeOnceFree(this, final, giveUpAt);
      if (reply !== undefined && reply.kind !== 'lost') return this.conclude(reply, final, when);
      state = reply?.state ?? state;
    }
    this.emit('outcome_diverged');
    this.end('diverged');
    if (state === 'in_progress') return { kind: 'in_progress' };
    return state === 'released' ? LOST : { kind: 'unknown' };
  }

  completed({ state, outcome }: FinalOutcome, late: boolean): void {
    if (!this.services.events.wants('completed')) return;
    const { subject, elapsedMs: durationMs } = this;
    const bytes = bytesOf(outcome);
    this.services.events.emit({ type: 'completed', ...subject, state, late, durationMs, bytes });
  }

  released(): void {
    if (!this.services.events.wants('released')) return;
    const { subject, elapsedMs: durationMs } = this;
    this.services.events.emit({ type: 'released', ...subject, durationMs });
  }

  releaseFailed(): void {
    this.emit('release_failed');
    this.end('given_up');
  }

  recordLost(): void {
    // Without protection, there may have been none.
    if (this.isRecordLost || !this.isProtected) return;
    this.isRecordLost = true;
    this.emit('record_lost');
  }

  unsaved(): void {
    this.emit('save_failed');
    this.end('unsaved');
  }

  endStored({ state, outcome }: FinalOutcome): void {
    this.end(state === 'completed' && this.isRecovered ? 'recovered' : state, outcome);
  }

  /** @param stored - its own outcome, if that is stored. */
  end(lastly: AttemptEnd, stored?: Outcome): void {
    const { keeper, services, request, isProtected, elapsedMs: durationMs } = this;
    keeper.stop();
    services.attempts.ended(this);
    const how = stored === undefined ? (this.endsAs ?? lastly) : lastly;
    // Without protection, the operation's start is the attempt's first event.
    if (!isProtected && how === 'not_started') return;
    const { events } = services;
    if (!events.wants('ended')) {
      events.counter.ended(request, how, durationMs, isProtected);
      return;
    }
    const { subject } = this;
    // Not by a spread of the first into the second: on Node 20, it takes 1.5 µs to copy such an object with a fraction.
    events.emit(
      stored === undefined
        ? { type: 'ended', ...subject, how, durationMs }
        : { type: 'ended', ...subject, how, durationMs, bytes: bytesOf(stored) },
    );
  }

  emit(type: PlainEvent): void {
    this.services.events.emit({ type, ...this.subject } as IdempotencyEvent);
  }
}

/** Holds a lease, which heartbeats extend, until the outcome is confirmed. */
export class LeasedEnding implements AttemptEnding {
  readonly protection = 'lease';

  constructor(private readonly attempt: EngineAttempt) {}

  complete(final: FinalOutcome): Promise<Settlement> {
    const { attempt } = this;
    const { attempts, clock } = attempt.services;
    attempts.settling(attempt);
    const now = clock.now();
    const giveUpAt = now + attempt.request.options.storeErrors.saveTimeout;
    return sendComplete(attempt, final, giveUpAt, now).then((reply) =>
      reply === undefined ? this.delayed(final) : attempt.conclude(reply, final),
    );
  }

  async release(): Promise<void> {
    const { attempt } = this;
    attempt.keeper.stop();
    const giveUpAt = attempt.clock.now() + attempt.request.options.storeErrors.saveTimeout;
    const reply = await sendRelease(attempt, giveUpAt);
    switch (reply?.kind) {
      case 'ok':
      case 'already':
        attempt.released();
        attempt.end('released');
        break;
      case 'gone':
        attempt.recordLost();
        attempt.end('released');
        break;
      default:
        attempt.releaseFailed();
    }
  }

  /** After the response: until it is confirmed or lost, or until the hard deadline or a shutdown. */
  private delayed(final: FinalOutcome): Settlement {
    const { attempt } = this;
    attempt.emit('save_delayed');
    void sendComplete(attempt, final, attempt.keeper.hardDeadlineAt).then((late) =>
      attempt.concludeLate(late, final),
    );
    const { whenNotSaved } = attempt.request.options.storeErrors;
    return whenNotSaved === 'error' ? { kind: 'unsaved' } : OWN;
  }
}

/** Has no known lease (`whenUnavailable: 'execute'`), and tries for a lease's length to save the outcome. */
export class UnprotectedEnding implements AttemptEnding {
  readonly protection = 'none';

  constructor(private readonly attempt: EngineAttempt) {}

  complete(final: FinalOutcome): Promise<Settlement> {
    const { attempt } = this;
    attempt.services.attempts.settling(attempt);
    attempt.keeper.stop();
    const giveUpAt = attempt.clock.now() + attempt.request.options.lease.duration;
    void completeOnceFree(attempt, final, giveUpAt).then((late) =>
      attempt.concludeLate(late, final),
    );
    return Promise.resolve(OWN);
  }

  /** A begin that was executed nevertheless would block the key for its lease. */
  release(): Promise<void> {
    const { attempt } = this;
    attempt.keeper.stop();
    const giveUpAt = attempt.clock.now() + attempt.request.options.storeErrors.commandTimeout;
    void sendRelease(attempt, giveUpAt).then((reply) => {
      const isFree = reply !== undefined && reply.kind !== 'lost';
      if (!attempt.hasStarted) attempt.end('not_started');
      else attempt.end(isFree ? 'released' : 'given_up');
    });
    return Promise.resolve();
  }
}
