import type { Attempt, FinalOutcome, Settlement } from './attempt.js';
import type { Claim } from './claim.js';
import type { AttemptSubject } from './events.js';
import type { CompleteReply } from './idempotency-store.js';
import type { AttemptHost } from './leased-attempt.js';
import { jitteredPause, monotonicNow } from './pause.js';
import { UNKNOWN_FENCE, type OwnerToken } from './record.js';

const RETRY_PAUSE_MS = 100;

/**
 * An attempt that runs without a lease, for `onStoreUnavailable: 'execute'`. Its outcome is offered to
 * the store after the answer, until one lease later: whoever retries once the store is back finds it.
 */
export class UnprotectedAttempt implements Attempt {
  readonly number = 1;
  readonly isTakeover = false;
  readonly fencingToken = UNKNOWN_FENCE;
  readonly isProtected = false;
  private readonly subject: AttemptSubject;
  private readonly startedAt = monotonicNow();
  private deadline: AbortSignal | undefined;

  /** @param token - that of the begin which got no answer: it may have acquired the record after all. */
  constructor(
    private readonly host: AttemptHost,
    private readonly claim: Claim,
    private readonly token: OwnerToken,
  ) {
    const { operation, recordKey } = claim;
    this.subject = { operation, recordKey, attempt: 1, fencingToken: UNKNOWN_FENCE };
  }

  get signal(): AbortSignal {
    this.deadline ??= AbortSignal.timeout(this.claim.options.maxExecutionMs);
    return this.deadline;
  }

  complete(final: FinalOutcome): Promise<Settlement> {
    void this.saveLater(final);
    return Promise.resolve({ kind: 'own' });
  }

  release(): Promise<void> {
    void this.releaseLater();
    return Promise.resolve();
  }

  responseDiverged(): void {
    this.host.events.emit({ type: 'response_diverged', ...this.subject });
  }

  private get lease() {
    return { recordKey: this.claim.recordKey, token: this.token, fence: UNKNOWN_FENCE };
  }

  private async saveLater({ state, outcome, retentionMs }: FinalOutcome): Promise<void> {
    const { fingerprint, options } = this.claim;
    const giveUpAt = monotonicNow() + options.leaseMs;
    let reply: CompleteReply | undefined;
    while (reply === undefined && monotonicNow() < giveUpAt && !this.host.abandoned) {
      try {
        reply = await this.host.store.complete(this.lease, {
          state,
          outcome,
          retentionMs,
          fingerprint,
          whenGone: 'restore',
          timeoutMs: options.commandTimeoutMs,
        });
      } catch {
        await jitteredPause(RETRY_PAUSE_MS);
      }
    }
    this.report(reply, state);
    this.host.ended(this);
  }

  private report(reply: CompleteReply | undefined, state: FinalOutcome['state']): void {
    const { events } = this.host;
    switch (reply?.kind) {
      case undefined:
        events.emit({ type: 'save_failed', ...this.subject });
        return;
      case 'superseded': {
        const type = reply.state === 'completed' ? 'superseded' : 'outcome_diverged';
        events.emit({ type, ...this.subject });
        return;
      }
      case 'lost':
        events.emit({ type: 'outcome_diverged', ...this.subject });
        return;
      default: {
        const durationMs = monotonicNow() - this.startedAt;
        events.emit({ type: 'completed', ...this.subject, state, late: true, durationMs });
      }
    }
  }

  private async releaseLater(): Promise<void> {
    const { leaseMs, commandTimeoutMs } = this.claim.options;
    try {
      // A begin that was executed after all would block the key for its lease.
      await this.host.store.release(this.lease, {
        tombstoneMs: leaseMs,
        timeoutMs: commandTimeoutMs,
      });
    } catch {
      // The lease, if there is one, ends by itself.
    }
    this.host.ended(this);
  }
}
