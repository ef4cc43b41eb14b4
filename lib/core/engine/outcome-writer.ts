import type { FinalOutcome } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { isAwaited, unfinishedRetentionMs } from '../operation/options.js';
import type { Lease } from '../record/record.js';
import type { CompleteReply, ReleaseReply } from '../store/idempotency-store.js';
import type { TransactionalRecords } from '../store/transactional-records.js';
import { isDoneWithin, jitteredPause } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { checkedReply } from './checked-reply.js';

/** Goes on with a reply, in the promise of its command: another one would cost each request more than the call. */
type Conclude<Reply, Result> = (reply: Reply | undefined) => Result | Promise<Result>;

const PAUSE_MS = 50;
const PAUSE_MAX_MS = 1_000;
/** Shorter: a request is waiting, and the key may be free only briefly between two attempts. */
const PAUSE_WHILE_LOCKED_MAX_MS = 250;

/**
 * Sends an attempt's last command, at least once, until the store replies: after the effect, every error is retried.
 */
export class OutcomeWriter {
  constructor(
    private readonly services: Pick<
      AttemptServices,
      'store' | 'events' | 'clock' | 'shutdownState'
    >,
    private readonly request: OperationRequest,
    private readonly lease: Lease,
  ) {}

  /**
   * @param giveUpAt - monotonic.
   * @param conclude - goes on with the reply, or with `undefined` when there was none until then.
   * @param now - monotonic.
   */
  complete<Result>(
    { state, outcome, retentionMs }: FinalOutcome,
    giveUpAt: number,
    conclude: Conclude<CompleteReply, Result>,
    now?: number,
  ): Promise<Result> {
    const { fingerprint, options } = this.request;
    const notify = isAwaited(options);
    const send = (timeoutMs: number) =>
      this.services.store.complete(this.lease, {
        state,
        outcome,
        retentionMs,
        fingerprint,
        whenGone: 'restore',
        notify,
        timeoutMs,
      });
    return this.untilReplied('complete', giveUpAt, send, conclude, now);
  }

  /**
   * Sends `complete` until no attempt holds the record: gets its outcome or, if it was released, stores this success.
   */
  async completeOnceFree(
    final: FinalOutcome,
    giveUpAt: number,
  ): Promise<CompleteReply | undefined> {
    for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_WHILE_LOCKED_MAX_MS)) {
      const reply = await this.complete(final, giveUpAt, asItIs);
      const isLocked = reply?.kind === 'lost' && reply.state === 'in_progress';
      const leftMs = giveUpAt - this.services.clock.now();
      if (!isLocked || leftMs <= 0 || this.isShutdownOver) return reply;
      await jitteredPause(Math.min(pauseMs, leftMs), this.services.clock);
    }
  }

  /** As {@link complete}. */
  release<Result>(giveUpAt: number, conclude: Conclude<ReleaseReply, Result>): Promise<Result> {
    const { options } = this.request;
    const tombstoneMs = unfinishedRetentionMs(options);
    const notify = isAwaited(options);
    const send = (timeoutMs: number) =>
      this.services.store.release(this.lease, { tombstoneMs, notify, timeoutMs });
    return this.untilReplied('release', giveUpAt, send, conclude);
  }

  /**
   * A commit without a reply may have happened. Once the lock of its transaction is released, sends the release: if the
   * record is finished, it was committed.
   * @returns the reply, or `undefined` when there was none until `giveUpAt` (monotonic).
   */
  async commitOutcome(
    records: TransactionalRecords,
    giveUpAt: number,
  ): Promise<ReleaseReply | undefined> {
    return (await this.isUnlocked(records, giveUpAt)) ? this.release(giveUpAt, asItIs) : undefined;
  }

  /** Whether the transaction that locks the record ends at the server before `giveUpAt` (monotonic). */
  async isUnlocked(records: TransactionalRecords, giveUpAt: number): Promise<boolean> {
    const { commandTimeoutMs } = this.request.options.storeErrors;
    do {
      const leftMs = Math.max(1, Math.ceil(giveUpAt - this.services.clock.now()));
      const timeoutMs = Math.min(commandTimeoutMs, leftMs);
      const ended = this.services.events.counted('transaction_ended', () =>
        records.ended(this.lease, { timeoutMs }),
      );
      if (await isDoneWithin(timeoutMs, ended, this.services.clock)) return true;
      await jitteredPause(Math.min(PAUSE_WHILE_LOCKED_MAX_MS, leftMs), this.services.clock);
    } while (this.services.clock.now() < giveUpAt && !this.isShutdownOver);
    return false;
  }

  private get isShutdownOver(): boolean {
    return this.services.shutdownState.expired;
  }

  private async untilReplied<Reply extends CompleteReply | ReleaseReply, Result>(
    command: 'complete' | 'release',
    giveUpAt: number,
    send: (timeoutMs: number) => Promise<Reply>,
    conclude: Conclude<Reply, Result>,
    now = this.services.clock.now(),
  ): Promise<Result> {
    const { counter } = this.services.events;
    const { commandTimeoutMs } = this.request.options.storeErrors;
    let sentAt = now;
    for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)) {
      const timeoutMs = Math.ceil(Math.min(commandTimeoutMs, giveUpAt - sentAt));
      let reply: Reply | undefined;
      try {
        reply = checkedReply(command, await send(Math.max(1, timeoutMs)));
        counter.commandReplied(command, sentAt);
      } catch (error) {
        counter.commandFailed(command, sentAt, error);
      }
      if (reply !== undefined) return conclude(reply);
      const leftMs = giveUpAt - this.services.clock.now();
      if (leftMs <= 0 || this.isShutdownOver) return conclude(undefined);
      await jitteredPause(Math.min(pauseMs, leftMs), this.services.clock);
      sentAt = this.services.clock.now();
    }
  }
}

function asItIs<Reply>(reply: Reply): Reply {
  return reply;
}
