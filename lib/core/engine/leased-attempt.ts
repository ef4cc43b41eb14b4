import type {
  Attempt,
  AttemptTransaction,
  FinalOutcome,
  Settlement,
} from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import type { AttemptSubject, LeaseLossReason } from '../record/events.js';
import type { FinishedState, Lease } from '../record/record.js';
import type { Acquisition, CompleteReply } from '../store/idempotency-store.js';
import { StoreUnavailableError } from '../util/errors.js';
import { monotonicNow } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { LeaseKeeper } from './lease-keeper.js';
import { OutcomeWriter } from './outcome-writer.js';

export const OWN: Settlement = { kind: 'own' };

export type LostReply = Extract<CompleteReply, { kind: 'lost' }>;
export type When = 'in time' | 'late';

/** An attempt that holds a lease until its outcome is confirmed. */
export class LeasedAttempt implements Attempt {
  readonly number: number;
  readonly isTakeover: boolean;
  readonly fencingToken: number;
  readonly isProtected: boolean = true;
  protected readonly keeper: LeaseKeeper;
  protected readonly writer: OutcomeWriter;
  private isRecordLost = false;

  /** @param lease - extended by heartbeats, unless something else serves as the lease. */
  constructor(
    protected readonly services: AttemptServices,
    protected readonly request: OperationRequest,
    protected readonly lease: Lease,
    { attempt, takeovers, fence }: Omit<Acquisition, 'now'>,
    private readonly startedAt: number,
    heartbeats: 'heartbeats' | 'no heartbeats' = 'heartbeats',
  ) {
    this.number = attempt;
    this.isTakeover = takeovers > 0;
    this.fencingToken = fence;
    const { store, deadlines, shutdownState } = services;
    const extended = heartbeats === 'heartbeats' ? lease : undefined;
    this.keeper = new LeaseKeeper(store, extended, request.options, startedAt, this, deadlines);
    this.writer = new OutcomeWriter(store, request, lease, shutdownState);
  }

  get signal(): AbortSignal {
    return this.keeper.signal;
  }

  get transaction(): AttemptTransaction | undefined {
    return undefined;
  }

  protected get subject(): AttemptSubject {
    const { operation, recordKey } = this.request;
    return { operation, recordKey, attempt: this.number, fencingToken: this.fencingToken };
  }

  /** @returns an error if the operation must not start, because the lease is not confirmed. */
  start(): Error | undefined | Promise<Error | undefined> {
    const started = this.keeper.start();
    return typeof started === 'boolean' ? unlessStarted(started) : started.then(unlessStarted);
  }

  complete(final: FinalOutcome): Promise<Settlement> {
    this.services.settling(this);
    const giveUpAt = monotonicNow() + this.request.options.storeErrors.saveTimeoutMs;
    return this.writer.complete(final, giveUpAt, (reply) =>
      reply === undefined ? this.delayed(final) : this.conclude(reply, final),
    );
  }

  release(): Promise<void> {
    this.keeper.stop();
    const giveUpAt = monotonicNow() + this.request.options.storeErrors.saveTimeoutMs;
    return this.writer.release(giveUpAt, (reply) => {
      switch (reply?.kind) {
        case 'ok':
        case 'already':
          this.released();
          break;
        case 'gone':
          this.recordLost();
          break;
        default:
          this.services.events.emit({ type: 'release_failed', ...this.subject });
      }
      this.end();
    });
  }

  recovered(): void {
    this.services.events.emit({ type: 'recovered', ...this.subject });
  }

  responseDiverged(): void {
    this.services.events.emit({ type: 'response_diverged', ...this.subject });
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
    this.end();
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
        this.end();
        return OWN;
      case 'superseded': {
        const { state, outcome } = reply;
        const type = state === 'completed' ? 'superseded' : 'outcome_diverged';
        events.emit({ type, ...this.subject });
        this.end();
        return { kind: 'other', state, outcome };
      }
      case 'lost':
        return this.afterLoss(reply, final, when);
    }
    this.completed(final.state, when === 'late' || reply.kind === 'ok_late');
    this.end();
    return OWN;
  }

  /** Another attempt has the record: its outcome is the response, unless the key was reused for other content. */
  protected async afterLoss(lost: LostReply, final: FinalOutcome, when: When): Promise<Settlement> {
    this.keeper.stop();
    let { state } = lost;
    if (state === 'in_progress') {
      const giveUpAt = monotonicNow() + this.request.options.duplicates.timeoutMs;
      const reply = await this.writer.completeOnceFree(final, giveUpAt);
      if (reply !== undefined && reply.kind !== 'lost') return this.conclude(reply, final, when);
      state = reply?.state ?? state;
    }
    return this.diverged(state);
  }

  protected diverged(state: LostReply['state']): Settlement {
    this.services.events.emit({ type: 'outcome_diverged', ...this.subject });
    this.end();
    if (state === 'in_progress') return { kind: 'in_progress' };
    return state === 'released' ? OWN : { kind: 'unknown' };
  }

  protected completed(state: FinishedState, late: boolean): void {
    if (!this.services.events.hasSubscribers) return;
    const durationMs = monotonicNow() - this.startedAt;
    this.services.events.emit({ type: 'completed', ...this.subject, state, late, durationMs });
  }

  protected released(): void {
    if (!this.services.events.hasSubscribers) return;
    const durationMs = monotonicNow() - this.startedAt;
    this.services.events.emit({ type: 'released', ...this.subject, durationMs });
  }

  protected recordLost(): void {
    if (this.isRecordLost) return;
    this.isRecordLost = true;
    this.services.events.emit({ type: 'record_lost', ...this.subject });
  }

  protected end(): void {
    this.keeper.stop();
    this.services.ended(this);
  }
}

function unlessStarted(hasStarted: boolean): Error | undefined {
  if (hasStarted) return undefined;
  return new StoreUnavailableError(
    'The reply to begin took most of the lease, and the lease could not be extended. Check the latency to the store, or increase "lease.durationMs".',
  );
}
