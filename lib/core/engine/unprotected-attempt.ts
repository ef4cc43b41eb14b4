import type { Attempt, FinalOutcome, Settlement } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import type { AttemptSubject } from '../record/events.js';
import { UNKNOWN_FENCE, type OwnerToken } from '../record/record.js';
import type { CompleteReply } from '../store/idempotency-store.js';
import { monotonicNow } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { LeaseKeeper } from './lease-keeper.js';
import { OutcomeWriter } from './outcome-writer.js';

/** Runs without a lease (`whenUnavailable: 'execute'`), then tries for a lease's length to save the outcome. */
export class UnprotectedAttempt implements Attempt {
  readonly number = 1;
  readonly isTakeover = false;
  readonly fencingToken = UNKNOWN_FENCE;
  readonly isProtected = false;
  readonly transaction = undefined;
  private readonly subject: AttemptSubject;
  private readonly keeper: LeaseKeeper;
  private readonly writer: OutcomeWriter;
  private readonly startedAt = monotonicNow();

  /** @param token - of the begin that got no reply, which may have acquired the record. */
  constructor(
    private readonly services: AttemptServices,
    private readonly request: OperationRequest,
    token: OwnerToken,
  ) {
    const { operation, recordKey, options } = request;
    this.subject = { operation, recordKey, attempt: 1, fencingToken: UNKNOWN_FENCE };
    const lease = { recordKey, token, fence: UNKNOWN_FENCE };
    const { store, shutdownState, deadlines } = services;
    this.writer = new OutcomeWriter(store, request, lease, shutdownState);
    this.keeper = new LeaseKeeper(store, undefined, options, this.startedAt, this, deadlines);
    void this.keeper.start();
  }

  get signal(): AbortSignal {
    return this.keeper.signal;
  }

  complete(final: FinalOutcome): Promise<Settlement> {
    this.services.settling(this);
    this.keeper.stop();
    void this.saveLater(final);
    return Promise.resolve({ kind: 'own' });
  }

  /** A begin that was executed nevertheless would block the key for its lease. */
  release(): Promise<void> {
    this.keeper.stop();
    const giveUpAt = monotonicNow() + this.request.options.storeErrors.commandTimeoutMs;
    void this.writer.release(giveUpAt).then(() => {
      this.services.ended(this);
    });
    return Promise.resolve();
  }

  recovered(): void {
    throw new TypeError('An unprotected attempt has nothing to recover.');
  }

  responseDiverged(): void {
    this.services.events.emit({ type: 'response_diverged', ...this.subject });
  }

  /** @internal */
  leaseLost(): void {
    // It had none.
  }

  /** @internal */
  abortReason(): DOMException {
    return new DOMException('The operation exceeded "lease.maxExecutionMs".', 'TimeoutError');
  }

  /** @internal */
  slow(elapsedMs: number): void {
    this.services.events.emit({ type: 'slow_attempt', ...this.subject, elapsedMs });
  }

  private async saveLater(final: FinalOutcome): Promise<void> {
    const giveUpAt = monotonicNow() + this.request.options.lease.durationMs;
    this.report(await this.writer.completeOnceFree(final, giveUpAt), final);
    this.services.ended(this);
  }

  private report(reply: CompleteReply | undefined, { state }: FinalOutcome): void {
    const { events } = this.services;
    switch (reply?.kind) {
      case undefined:
      case 'gone':
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
}
