import { AsyncResource } from 'node:async_hooks';
import type { Attempt, FinalOutcome, Settlement } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import type { AttemptSubject } from '../record/events.js';
import { UNKNOWN_FENCE, type OwnerToken } from '../record/record.js';
import type { CompleteReply } from '../store/idempotency-store.js';
import type { DeadlineListener } from '../util/deadlines.js';
import { monotonicNow } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { OutcomeWriter } from './outcome-writer.js';

/** Runs without a lease (`whenUnavailable: 'execute'`), then tries for a lease's length to save the outcome. */
export class UnprotectedAttempt implements Attempt, DeadlineListener {
  readonly number = 1;
  readonly isTakeover = false;
  readonly fencingToken = UNKNOWN_FENCE;
  readonly isProtected = false;
  readonly transaction = undefined;
  /** @internal */
  readonly dueAt: number;
  private readonly subject: AttemptSubject;
  private readonly writer: OutcomeWriter;
  private readonly startedAt = monotonicNow();
  /** Gives listeners of the signal the async context of the request. */
  private readonly context = new AsyncResource('IdempotencyDeadline', {
    requireManualDestroy: true,
  });
  private abortion: AbortController | undefined;
  private isOver = false;

  /** @param token - of the begin that got no reply, which may have acquired the record. */
  constructor(
    private readonly services: AttemptServices,
    private readonly request: OperationRequest,
    token: OwnerToken,
  ) {
    const { operation, recordKey, options } = request;
    this.dueAt = this.startedAt + options.lease.maxExecutionMs;
    this.subject = { operation, recordKey, attempt: 1, fencingToken: UNKNOWN_FENCE };
    const lease = { recordKey, token, fence: UNKNOWN_FENCE };
    this.writer = new OutcomeWriter(services.store, request, lease, services.shutdownState);
  }

  /** Aborted after `lease.maxExecutionMs` unless the attempt has ended. */
  get signal(): AbortSignal {
    if (this.abortion === undefined) {
      this.abortion = new AbortController();
      // AbortSignal.timeout() would leak: its timer retains the async context, which references the signal.
      if (monotonicNow() >= this.dueAt) this.onDeadline();
      else if (!this.isOver) this.services.deadlines.schedule(this);
    }
    return this.abortion.signal;
  }

  /** @internal */
  onDeadline(): void {
    this.context.runInAsyncScope(() => {
      this.abortion?.abort(
        new DOMException('The operation exceeded "lease.maxExecutionMs".', 'TimeoutError'),
      );
    });
  }

  complete(final: FinalOutcome): Promise<Settlement> {
    this.services.settling(this);
    this.stopWatching();
    void this.saveLater(final);
    return Promise.resolve({ kind: 'own' });
  }

  /** A begin that was executed nevertheless would block the key for its lease. */
  release(): Promise<void> {
    this.stopWatching();
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

  private stopWatching(): void {
    this.isOver = true;
    this.services.deadlines.cancel(this);
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
