import type { Attempt, FinalOutcome, Settlement } from './attempt.js';
import type { Claim } from './claim.js';
import type { AttemptSubject, IdempotencyEvents, LeaseLossReason } from './events.js';
import type { Acquisition, CompleteReply, IdempotencyStore } from './idempotency-store.js';
import { LeaseKeeper } from './lease-keeper.js';
import { unfinishedRetentionMs } from './options.js';
import { jitteredPause, monotonicNow } from './pause.js';
import type { Lease } from './record.js';

/** What an attempt needs of the engine that let it through. */
export interface AttemptHost {
  readonly store: IdempotencyStore;
  readonly events: IdempotencyEvents;
  /** Set once the shutdown no longer waits: what is not stored by then stays with the lease. */
  readonly abandoned: boolean;
  /** The attempt is over, its last save included. */
  ended(attempt: Attempt): void;
}

const OWN: Settlement = { kind: 'own' };
const RETRY_PAUSE_MS = 50;
const RETRY_PAUSE_MAX_MS = 1_000;

/** An attempt that holds a lease, and keeps it until its outcome is confirmed. */
export class LeasedAttempt implements Attempt {
  readonly number: number;
  readonly isTakeover: boolean;
  readonly fencingToken: number;
  readonly isProtected = true;
  private readonly keeper: LeaseKeeper;
  /** What every event of this attempt says of it. */
  private readonly subject: AttemptSubject;

  constructor(
    private readonly host: AttemptHost,
    private readonly claim: Claim,
    private readonly lease: Lease,
    { attempt, takeovers, fence }: Acquisition,
    private readonly startedAt: number,
  ) {
    this.number = attempt;
    this.isTakeover = takeovers > 0;
    this.fencingToken = fence;
    const { operation, recordKey } = claim;
    this.subject = { operation, recordKey, attempt, fencingToken: fence };
    this.keeper = new LeaseKeeper(host.store, lease, claim.options, startedAt, this);
  }

  get signal(): AbortSignal {
    return this.keeper.signal;
  }

  async complete(final: FinalOutcome): Promise<Settlement> {
    const reply = await this.save(final, monotonicNow() + this.claim.options.saveTimeoutMs);
    if (reply !== undefined) return this.conclude(reply, final);
    this.host.events.emit({ type: 'save_delayed', ...this.subject });
    void this.saveLater(final);
    return this.claim.options.onSaveFailure === 'error' ? { kind: 'unsaved' } : OWN;
  }

  async release(): Promise<void> {
    this.keeper.stop();
    const { options } = this.claim;
    const giveUpAt = monotonicNow() + options.saveTimeoutMs;
    const tombstoneMs = unfinishedRetentionMs(options);
    const reply = await this.untilAnswered(giveUpAt, (timeoutMs) =>
      this.host.store.release(this.lease, { tombstoneMs, timeoutMs }),
    );
    if (reply?.kind === 'ok' || reply?.kind === 'already') {
      this.host.events.emit({
        type: 'released',
        ...this.subject,
        durationMs: monotonicNow() - this.startedAt,
      });
    }
    this.end();
  }

  responseDiverged(): void {
    this.host.events.emit({ type: 'response_diverged', ...this.subject });
  }

  /** @internal */
  leaseLost(reason: LeaseLossReason): void {
    this.host.events.emit({ type: 'lease_lost', ...this.subject, reason });
    if (reason === 'gone') this.host.events.emit({ type: 'record_lost', ...this.subject });
  }

  /** @internal */
  slow(elapsedMs: number): void {
    this.host.events.emit({ type: 'slow_attempt', ...this.subject, elapsedMs });
  }

  private save(
    { state, outcome, retentionMs }: FinalOutcome,
    giveUpAt: number,
  ): Promise<CompleteReply | undefined> {
    const { fingerprint } = this.claim;
    return this.untilAnswered(giveUpAt, (timeoutMs) =>
      this.host.store.complete(this.lease, {
        state,
        outcome,
        retentionMs,
        fingerprint,
        whenGone: 'restore',
        timeoutMs,
      }),
    );
  }

  /** The answer has left, or a 503 in its place: go on until confirmed, lost, too late or shut down. */
  private async saveLater(final: FinalOutcome): Promise<void> {
    const reply = await this.save(final, this.keeper.hardDeadlineAt);
    if (reply === undefined) {
      this.host.events.emit({ type: 'save_failed', ...this.subject });
      this.end();
    } else {
      await this.conclude(reply, final, 'late');
    }
  }

  private async conclude(
    reply: CompleteReply,
    final: FinalOutcome,
    when: 'in time' | 'late' = 'in time',
  ): Promise<Settlement> {
    switch (reply.kind) {
      case 'restored':
      case 'gone':
        this.host.events.emit({ type: 'record_lost', ...this.subject });
        break;
      case 'superseded': {
        const { state, outcome } = reply;
        const type = state === 'completed' ? 'superseded' : 'outcome_diverged';
        this.host.events.emit({ type, ...this.subject });
        this.end();
        return { kind: 'other', state, outcome };
      }
      case 'lost':
        return this.afterLoss(reply, final, when);
      default:
    }
    this.host.events.emit({
      type: 'completed',
      ...this.subject,
      state: final.state,
      late: when === 'late' || reply.kind === 'ok_late',
      durationMs: monotonicNow() - this.startedAt,
    });
    this.end();
    return OWN;
  }

  /**
   * Another attempt holds the record. Asking again by `complete` says all there is to know: its outcome
   * once it has one, or, should it let go, that this attempt's success stands after all.
   */
  private async afterLoss(
    lost: Extract<CompleteReply, { kind: 'lost' }>,
    final: FinalOutcome,
    when: 'in time' | 'late',
  ): Promise<Settlement> {
    this.keeper.stop();
    const giveUpAt = monotonicNow() + this.claim.options.waitTimeoutMs;
    let state = lost.state;
    for (
      let pauseMs = RETRY_PAUSE_MS;
      state === 'in_progress' && monotonicNow() < giveUpAt && !this.host.abandoned;
      pauseMs = Math.min(pauseMs * 2, RETRY_PAUSE_MAX_MS)
    ) {
      await jitteredPause(pauseMs);
      const reply = await this.save(final, giveUpAt);
      if (reply !== undefined && reply.kind !== 'lost') return this.conclude(reply, final, when);
      if (reply !== undefined) state = reply.state;
    }
    this.host.events.emit({ type: 'outcome_diverged', ...this.subject });
    this.end();
    return state === 'in_progress' ? { kind: 'in_progress' } : OWN;
  }

  /** Sends a command until the store answers, `giveUpAt` is reached or the shutdown no longer waits. */
  private async untilAnswered<Reply>(
    giveUpAt: number,
    send: (timeoutMs: number) => Promise<Reply>,
  ): Promise<Reply | undefined> {
    const { commandTimeoutMs } = this.claim.options;
    let pauseMs = RETRY_PAUSE_MS;
    for (;;) {
      const leftMs = giveUpAt - monotonicNow();
      if (leftMs <= 0 || this.host.abandoned) return undefined;
      try {
        return await send(Math.ceil(Math.min(commandTimeoutMs, leftMs)));
      } catch {
        // Whatever it was, the same command again: the operation has had its effect.
        await jitteredPause(Math.min(pauseMs, giveUpAt - monotonicNow()));
        pauseMs = Math.min(pauseMs * 2, RETRY_PAUSE_MAX_MS);
      }
    }
  }

  private end(): void {
    this.keeper.stop();
    this.host.ended(this);
  }
}
