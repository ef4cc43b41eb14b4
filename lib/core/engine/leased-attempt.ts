import type { AttemptTransaction, FinalOutcome, Settlement } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import type { AttemptEnd, AttemptSubject, LeaseLossReason } from '../record/events.js';
import { bytesOf, type Lease, type Outcome } from '../record/record.js';
import type { Acquisition, CompleteReply } from '../store/idempotency-store.js';
import type { Clock } from '../util/clock.js';
import { errorTypeOf, StoreUnavailableError } from '../util/errors.js';
import type { AttemptServices, EngineAttempt } from './attempt-services.js';
import { LeaseKeeper } from './lease-keeper.js';
import { OutcomeWriter } from './outcome-writer.js';

export const OWN: Settlement = { kind: 'own' };

export type LostReply = Extract<CompleteReply, { kind: 'lost' }>;
export type When = 'in time' | 'late';

/** An attempt that holds a lease until its outcome is confirmed. */
export class LeasedAttempt implements EngineAttempt {
  readonly number: number;
  readonly isTakeover: boolean;
  readonly fencingToken: number;
  readonly isProtected: boolean = true;
  protected readonly keeper: LeaseKeeper;
  protected readonly writer: OutcomeWriter;
  private isRecordLost = false;
  private isRecovered = false;
  private isDiscarded = false;

  /** @param lease - extended by heartbeats, unless something else serves as the lease. */
  constructor(
    protected readonly services: AttemptServices,
    readonly request: OperationRequest,
    protected readonly lease: Lease,
    { attempt, takeovers, fence }: Omit<Acquisition, 'now'>,
    private readonly startedAt: number,
    heartbeats: 'heartbeats' | 'no heartbeats' = 'heartbeats',
  ) {
    this.number = attempt;
    this.isTakeover = takeovers > 0;
    this.fencingToken = fence;
    const extended = heartbeats === 'heartbeats' ? lease : undefined;
    this.keeper = new LeaseKeeper(services, extended, request.options, startedAt, this);
    this.writer = new OutcomeWriter(services, request, lease);
  }

  get signal(): AbortSignal {
    return this.keeper.signal;
  }

  get clock(): Clock {
    return this.services.clock;
  }

  get transaction(): AttemptTransaction | undefined {
    return undefined;
  }

  get subject(): AttemptSubject {
    const { number: attempt, fencingToken } = this;
    const { operation, transport, recordKey } = this.request;
    return { operation, transport, recordKey, attempt, fencingToken };
  }

  get elapsedMs(): number {
    return this.services.clock.now() - this.startedAt;
  }

  get leaseLeftMs(): number | undefined {
    return this.keeper.leaseLeftMs;
  }

  /** @returns an error if the operation must not start, because the lease is not confirmed. */
  start(): Error | undefined | Promise<Error | undefined> {
    const started = this.keeper.start();
    return typeof started === 'boolean' ? unlessStarted(started) : started.then(unlessStarted);
  }

  complete(final: FinalOutcome): Promise<Settlement> {
    this.services.settling(this);
    const now = this.services.clock.now();
    const giveUpAt = now + this.request.options.storeErrors.saveTimeoutMs;
    const conclude = (reply: CompleteReply | undefined) =>
      reply === undefined ? this.delayed(final) : this.conclude(reply, final);
    return this.writer.complete(final, giveUpAt, conclude, now);
  }

  release(): Promise<void> {
    this.keeper.stop();
    const giveUpAt = this.services.clock.now() + this.request.options.storeErrors.saveTimeoutMs;
    return this.writer.release(giveUpAt, (reply) => {
      switch (reply?.kind) {
        case 'ok':
        case 'already':
          this.released();
          this.end('released');
          break;
        case 'gone':
          this.recordLost();
          this.end('released');
          break;
        default:
          this.releaseFailed();
      }
    });
  }

  /** Releases the key of an operation that must not start. */
  discard(): Promise<void> {
    this.isDiscarded = true;
    return this.release();
  }

  started(): void {
    // It was reported when it began.
  }

  recovered(): void {
    this.isRecovered = true;
    this.services.events.emit({ type: 'recovered', ...this.subject });
  }

  responseDiverged(): void {
    this.services.events.emit({ type: 'response_diverged', ...this.subject });
  }

  optionFailed(option: string, error: unknown): void {
    const { operation, transport, recordKey } = this.request;
    const about = { operation, transport, recordKey, option, error };
    this.services.events.emit({ type: 'option_failed', ...about, errorType: errorTypeOf(error) });
  }

  /** @internal */
  leaseLost(reason: LeaseLossReason): void {
    this.services.events.emit({ type: 'lease_lost', ...this.subject, reason });
    if (reason === 'gone') this.recordLost();
  }

  /** @internal */
  abortReason(reason: LeaseLossReason): unknown {
    return reason;
  }

  /** @internal */
  slow(elapsedMs: number): void {
    this.services.events.emit({ type: 'slow_attempt', ...this.subject, elapsedMs });
  }

  /** After the response: until it is confirmed or lost, or until the hard deadline or a shutdown. */
  private delayed(final: FinalOutcome): Settlement {
    this.services.events.emit({ type: 'save_delayed', ...this.subject });
    void this.writer.complete(final, this.keeper.hardDeadlineAt, (late) =>
      this.concludeLate(late, (reply) => this.conclude(reply, final, 'late')),
    );
    return this.request.options.storeErrors.whenNotSaved === 'error' ? { kind: 'unsaved' } : OWN;
  }

  protected concludeLate<Reply>(
    reply: Reply | undefined,
    conclude: (reply: Reply) => unknown,
  ): unknown {
    if (reply !== undefined) return conclude(reply);
    this.services.events.emit({ type: 'save_failed', ...this.subject });
    this.end('unsaved');
    return undefined;
  }

  protected conclude(
    reply: CompleteReply,
    final: FinalOutcome,
    when: When = 'in time',
  ): Settlement | Promise<Settlement> {
    const { events } = this.services;
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
        events.emit({ type: 'save_failed', ...this.subject });
        this.end('unsaved');
        return OWN;
      case 'superseded': {
        const { state, outcome } = reply;
        const isSuperseded = state === 'completed';
        const type = isSuperseded ? 'superseded' : 'outcome_diverged';
        events.emit({ type, ...this.subject });
        this.end(isSuperseded ? 'superseded' : 'diverged');
        return { kind: 'other', state, outcome };
      }
      case 'lost':
        return this.afterLoss(reply, final, when);
    }
    this.completed(final, when === 'late' || reply.kind === 'ok_late');
    this.endStored(final);
    return OWN;
  }

  /** Another attempt has the record: its outcome is the response, unless the key was reused for other content. */
  protected async afterLoss(lost: LostReply, final: FinalOutcome, when: When): Promise<Settlement> {
    this.keeper.stop();
    let { state } = lost;
    if (state === 'in_progress') {
      const giveUpAt = this.services.clock.now() + this.request.options.duplicates.timeoutMs;
      const reply = await this.writer.completeOnceFree(final, giveUpAt);
      if (reply !== undefined && reply.kind !== 'lost') return this.conclude(reply, final, when);
      state = reply?.state ?? state;
    }
    return this.diverged(state);
  }

  protected diverged(state: LostReply['state']): Settlement {
    this.services.events.emit({ type: 'outcome_diverged', ...this.subject });
    this.end('diverged');
    if (state === 'in_progress') return { kind: 'in_progress' };
    return state === 'released' ? OWN : { kind: 'unknown' };
  }

  protected completed({ state, outcome }: FinalOutcome, late: boolean): void {
    if (!this.services.events.wants('completed')) return;
    const { subject, elapsedMs: durationMs } = this;
    const bytes = bytesOf(outcome);
    this.services.events.emit({ type: 'completed', ...subject, state, late, durationMs, bytes });
  }

  protected released(): void {
    if (!this.services.events.wants('released')) return;
    const { subject, elapsedMs: durationMs } = this;
    this.services.events.emit({ type: 'released', ...subject, durationMs });
  }

  protected releaseFailed(): void {
    this.services.events.emit({ type: 'release_failed', ...this.subject });
    this.end('given_up');
  }

  protected recordLost(): void {
    if (this.isRecordLost) return;
    this.isRecordLost = true;
    this.services.events.emit({ type: 'record_lost', ...this.subject });
  }

  protected endStored({ state, outcome }: FinalOutcome): void {
    this.end(state === 'completed' && this.isRecovered ? 'recovered' : state, outcome);
  }

  protected end(how: AttemptEnd, stored?: Outcome): void {
    this.keeper.stop();
    this.services.ended(this, this.isDiscarded ? 'not_started' : how, stored);
  }
}

function unlessStarted(hasStarted: boolean): Error | undefined {
  if (hasStarted) return undefined;
  return new StoreUnavailableError(
    'The reply to begin took most of the lease, and the lease could not be extended. Check the latency to the store, or increase "lease.durationMs".',
  );
}
