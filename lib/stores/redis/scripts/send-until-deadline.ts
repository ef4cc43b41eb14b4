import type { DeadlineListener } from '../../../core/util/deadlines.js';
import {
  hasCode,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../../core/util/errors.js';
import { jitteredPause, monotonicNow } from '../../../core/util/time.js';
import type { ConnectionState } from '../connection/connection-state.js';
import {
  classifyFailure,
  describeFailure,
  isErrorReply,
  isForeign,
  WrongDatabaseError,
  type SendFailure,
} from '../connection/error-classification.js';
import { isQueued } from './replies.js';
import type { ReplyOrder } from './reply-order.js';

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** With less time left, one more copy would only turn "not executed" into "unknown". */
const MIN_TIME_FOR_RETRY_MS = 20;
const QUEUED =
  'Redis executes the command with the transaction that the application has begun on this connection, or not at all: MULTI holds back what everybody sends on it. Give the store a connection of its own.';

/** What is sent, in as many copies as it takes. */
export interface Transmission<Reply> {
  send(sending: Sending): Promise<unknown>;
  /** The same at once in another way, where that helps against the failure. */
  sendAgain?(failure: unknown): Promise<unknown> | undefined;
  /** Whether it is the reply of what was sent last. */
  isOwn(reply: unknown): reply is Reply;
  /** Of the connection that it was sent over last. */
  readonly order: ReplyOrder | undefined;
}

export interface Sending {
  /** Whether somebody still waits for the reply. */
  readonly isUnderWay: boolean;
}

/**
 * Sends a command until it is answered, for as long as `timeoutMs` lasts.
 *
 * One send may take all the time that is left: a second copy would wait behind it on the same connection.
 * The next copy goes out when the connection, or the server, has rejected the one before.
 *
 * @param prepare - makes what is sent; what that throws is told like every other failure.
 * @param read - makes the result of the reply.
 * @throws {@link StoreUnavailableError} no copy was executed.
 * @throws {@link StoreOutcomeUnknownError} a copy may have been executed, or may still be.
 * @throws {@link StoreReplyMismatchedError} another command's reply came; nobody knows what became of this one.
 * @throws {@link StoreConfigurationError} the server refuses it.
 */
export function sendUntilDeadline<Reply, Result>(
  watch: ConnectionState,
  timeoutMs: number,
  prepare: () => Transmission<Reply>,
  read: (reply: Reply) => Result,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const settle = { read, resolve, reject };
    new PendingSend(watch, monotonicNow() + timeoutMs, prepare(), settle).send();
  });
}

interface Settle<Reply, Result> {
  readonly read: (reply: Reply) => Result;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Has prototype methods and few fields, for there are two of these in every request. */
class PendingSend<Reply, Result> implements DeadlineListener, Sending {
  isUnderWay = false;
  private attempts = 0;
  private mayHaveRun = false;
  /** Error replies of which it is not known yet whether they are this command's. */
  private doubts = 0;
  /** Waits for what they turn out to be. */
  private reject: (() => void) | undefined;

  constructor(
    private readonly watch: ConnectionState,
    /** When the time is over: a reply that comes later is nobody's. */
    readonly dueAt: number,
    private readonly transmission: Transmission<Reply>,
    private readonly settle: Settle<Reply, Result>,
  ) {}

  send(): void {
    const { unavailable, deadlines, stallDetector } = this.watch;
    if (unavailable !== undefined) {
      const { reason, error } = unavailable;
      const failure = reason === 'closed' ? 'rejected' : connectionFailure(error);
      this.failed(failure, describeUnavailable(reason, error), false);
      return;
    }
    this.isUnderWay = true;
    deadlines.schedule(this);
    stallDetector?.sent();
    try {
      this.await(this.transmission.send(this), true);
    } catch (error) {
      // A client of somebody's own, or one that somebody has put something around.
      this.rejected(error);
    }
  }

  onDeadline(): void {
    // After a blocked event loop timers come before input: a reply that is already here is read first.
    setImmediate(() => {
      if (this.isUnderWay) this.ended('unknown', 'no reply in time');
      else this.conclude(true);
    });
  }

  /** @param isFirst - of this copy, which may be sent in another way. */
  private await(replied: Promise<unknown>, isFirst: boolean): void {
    replied.then(
      (reply) => {
        this.onReply(reply);
      },
      (error: unknown) => {
        if (isErrorReply(error)) this.doubt();
        // Too late, it would be executed for nobody.
        if (isFirst && this.isUnderWay) this.resend(error);
        else this.rejected(error);
      },
    );
  }

  private resend(error: unknown): void {
    try {
      const retry = this.transmission.sendAgain?.(error);
      if (retry === undefined) this.rejected(error);
      else this.await(retry, false);
    } catch (failure) {
      this.rejected(failure);
    }
  }

  private onReply(reply: unknown): void {
    this.watch.stallDetector?.settled();
    const { transmission } = this;
    if (isQueued(reply)) {
      this.queued();
      return;
    }
    if (!transmission.isOwn(reply)) {
      this.mismatched(transmission.order?.broken());
      return;
    }
    transmission.order?.confirmed();
    if (!this.isUnderWay) return;
    this.stopWaiting();
    const { read, resolve, reject } = this.settle;
    try {
      resolve(read(reply));
    } catch (error) {
      reject(error);
    }
  }

  /** Each further copy would be one more command of a transaction that is another's. */
  private queued(): void {
    if (!this.isUnderWay) return;
    this.stopWaiting();
    this.settle.reject(new StoreOutcomeUnknownError(QUEUED, { isRejection: true }));
  }

  private mismatched(error: unknown): void {
    if (!this.isUnderWay) return;
    this.stopWaiting();
    this.settle.reject(error);
  }

  private rejected(error: unknown): void {
    this.watch.stallDetector?.settled();
    if (hasCode(error, 'idempotency_store_reply_mismatched')) this.mismatched(error);
    else if (this.isUnderWay) this.ended(classifyFailure(error), describeFailure(error));
  }

  /** An error reply does not say whose it is: that of a connection out of step says nothing of this command. */
  private doubt(): void {
    this.doubts += 1;
    this.transmission.order?.errorReplied((isInPlace) => {
      this.doubts -= 1;
      this.mayHaveRun ||= !isInPlace;
      if (this.doubts === 0) this.conclude(false);
    });
  }

  private ended(failure: SendFailure, cause: string): void {
    this.stopWaiting();
    this.failed(failure, cause, true);
  }

  private stopWaiting(): void {
    this.isUnderWay = false;
    this.watch.deadlines.cancel(this);
  }

  /** @param wasSent - it was not held back for want of a connection. */
  private failed(failure: SendFailure, cause: string, wasSent: boolean): void {
    const { reject } = this.settle;
    if (failure === 'misconfigured') {
      reject(new StoreConfigurationError(cause));
      return;
    }
    this.mayHaveRun ||= failure === 'unknown' || failure === 'unreplicated';
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.attempts, LONGEST_PAUSE_MS);
    this.attempts += 1;
    const leftMs = this.dueAt - monotonicNow() - pauseMs;
    // Of too few replicas it was waited for already.
    const isFinal = failure === 'rejected' || failure === 'unreplicated';
    if (!isFinal && leftMs >= MIN_TIME_FOR_RETRY_MS) {
      void jitteredPause(pauseMs).then(() => {
        this.send();
      });
      return;
    }
    // A connection that is closed is final, too, but no answer.
    const isRejection = isFinal && wasSent;
    this.reject = () => {
      reject(
        this.mayHaveRun
          ? new StoreOutcomeUnknownError(`Redis may have executed the command: ${cause}`, {
              isRejection,
            })
          : new StoreUnavailableError(`Redis did not execute the command: ${cause}`, {
              isRejection,
            }),
      );
    };
    if (this.doubts === 0 || this.mayHaveRun) this.conclude(false);
    else this.watch.deadlines.schedule(this);
  }

  /** @param isTimeOver - what is in doubt stays so. */
  private conclude(isTimeOver: boolean): void {
    const { reject } = this;
    if (reject === undefined) return;
    this.reject = undefined;
    this.watch.deadlines.cancel(this);
    this.mayHaveRun ||= isTimeOver;
    reject();
  }
}

/** What was never sent was not executed; but a password or an address that is wrong will not be right in a moment. */
function connectionFailure(error: Error | undefined): SendFailure {
  const isLasting = classifyFailure(error) === 'misconfigured' || isForeign(error);
  return isLasting ? 'misconfigured' : 'not_executed';
}

function describeUnavailable(reason: 'not_connected' | 'closed', error: Error | undefined): string {
  if (error instanceof WrongDatabaseError) return error.message;
  const state = reason === 'closed' ? 'the connection is closed' : 'there is no connection';
  return error === undefined ? state : `${state} (${describeFailure(error)})`;
}
