import type { FinalOutcome, Settlement } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { UNKNOWN_FENCE, type OwnerToken } from '../record/record.js';
import type { AttemptServices } from './attempt-services.js';
import { LeasedAttempt, OWN, type LostReply } from './leased-attempt.js';

const FIRST = { attempt: 1, takeovers: 0, fence: UNKNOWN_FENCE };

/** Runs without a known lease (`whenUnavailable: 'execute'`), then tries for a lease's length to save the outcome. */
export class UnprotectedAttempt extends LeasedAttempt {
  override readonly isProtected = false;
  private hasStarted = false;

  /** @param token - of the begin that got no reply, which may have acquired the record. */
  constructor(services: AttemptServices, request: OperationRequest, token: OwnerToken) {
    const lease = { recordKey: request.recordKey, token, fence: UNKNOWN_FENCE };
    super(services, request, lease, FIRST, services.clock.now(), 'no heartbeats');
    void this.keeper.start();
  }

  /** An outer timeout may have responded before: what never ran is not reported. */
  override started(): void {
    if (this.hasStarted) return;
    this.hasStarted = true;
    this.services.events.emit({
      type: 'unprotected',
      ...this.subject,
      reason: 'store_unavailable',
    });
  }

  override complete(final: FinalOutcome): Promise<Settlement> {
    this.services.settling(this);
    this.keeper.stop();
    const giveUpAt = this.clock.now() + this.request.options.lease.durationMs;
    void this.writer
      .completeOnceFree(final, giveUpAt)
      .then((late) => this.concludeLate(late, (reply) => this.conclude(reply, final, 'late')));
    return Promise.resolve(OWN);
  }

  /** A begin that was executed nevertheless would block the key for its lease. */
  override release(): Promise<void> {
    this.keeper.stop();
    const giveUpAt = this.clock.now() + this.request.options.storeErrors.commandTimeoutMs;
    void this.writer.release(giveUpAt, (reply) => {
      const isFree = reply !== undefined && reply.kind !== 'lost';
      if (!this.hasStarted) this.end('not_started');
      else this.end(isFree ? 'released' : 'given_up');
    });
    return Promise.resolve();
  }

  /** @internal */
  override leaseLost(): void {
    // It had none that was confirmed.
  }

  /** @internal */
  override abortReason(): DOMException {
    return new DOMException('The operation exceeded "lease.maxExecutionMs".', 'TimeoutError');
  }

  /** It has already waited until no attempt has the record. */
  protected override afterLoss({ state }: LostReply): Promise<Settlement> {
    return Promise.resolve(this.diverged(state));
  }

  protected override recordLost(): void {
    // There may have been no record.
  }
}
