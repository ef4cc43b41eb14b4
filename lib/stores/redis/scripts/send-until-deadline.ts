import {
  hasCode,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../../core/util/errors.js';
import { nodeClock } from '../../../core/util/clock.js';
import { jitteredPause, type DeadlineListener } from '../../../core/util/time.js';
import type { ConnectionState } from '../ioredis/connection-state.js';
import {
  classifyFailure,
  describeFailure,
  isErrorReply,
  isForeign,
  WrongDatabaseError,
  type SendFailure,
} from '../ioredis/error-classification.js';
import type { CommandReceiver } from '../ioredis/own-commands.js';
import { isQueued } from './replies.js';
import type { ReplyOrder } from './reply-order.js';

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** With less time left, another attempt would only turn "not executed" into "unknown". */
const MIN_TIME_FOR_RETRY_MS = 20;
const QUEUED =
  'The application has begun a transaction (MULTI) on the connection of the store. Redis executes the command with that transaction, or not at all. Give the store its own connection.';

/** A command, sent in as many attempts as it takes. */
export interface Transmission<Reply> {
  /** @returns undefined if `sending` receives the reply itself. */
  send(sending: Sending): Promise<unknown> | undefined;
  /** Sends it another way at once, if that helps against the failure. */
  sendAgain?(failure: unknown): Promise<unknown> | undefined;
  /** Notified of each attempt's failure. */
  failed?(error: unknown): void;
  /** Whether it is the reply to the last attempt. */
  isOwn(reply: unknown): reply is Reply;
  /** Whether `send` has to send a further command, as the reply says. */
  continues?(reply: Reply): boolean;
  /** That of the connection of the last attempt. */
  readonly order: ReplyOrder | undefined;
}

export interface Sending extends CommandReceiver {
  /** Whether the caller still waits for the reply. */
  readonly isInFlight: boolean;
}

/**
 * Sends a command until a reply arrives or `timeoutMs` has passed. One attempt may take all of the time: another would
 * queue behind it on the same connection. The next follows when the connection, or the server, has rejected the
 * previous one.
 * @param prepare - creates what is sent; its errors reject the promise.
 * @throws {@link StoreUnavailableError} no attempt was executed.
 * @throws {@link StoreOutcomeUnknownError} an attempt may have been executed, or may still be.
 * @throws {@link StoreReplyMismatchedError} another command's reply arrived; the outcome of this one is unknown.
 * @throws {@link StoreConfigurationError} the server rejects it.
 */
export function sendUntilDeadline<Reply, Result>(
  watch: ConnectionState,
  timeoutMs: number,
  prepare: () => Transmission<Reply>,
  read: (reply: Reply) => Result,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const dueAt = nodeClock.now() + timeoutMs;
    new PendingSend(watch, dueAt, prepare(), read, resolve, reject).send();
  });
}

/** Has prototype methods and few fields: every request creates two. */
class PendingSend<Reply, Result> implements DeadlineListener, Sending {
  isInFlight = false;
  /** @internal */
  previousDeadline: DeadlineListener | undefined = undefined;
  /** @internal */
  nextDeadline: DeadlineListener | undefined = undefined;
  private attempts = 0;
  private mayHaveRun = false;
  /** Error replies that may belong to another command. */
  private doubts = 0;
  /** Pending until those are resolved. */
  private rejectLast: (() => void) | undefined;

  constructor(
    private readonly watch: ConnectionState,
    /** The deadline. A later reply is ignored. */
    readonly dueAt: number,
    private readonly transmission: Transmission<Reply>,
    private readonly read: (reply: Reply) => Result,
    private readonly resolve: (result: Result) => void,
    private readonly reject: (error: unknown) => void,
  ) {}

  send(): void {
    const { unavailable, deadlines, stallDetector } = this.watch;
    if (unavailable !== undefined) {
      const { reason, error } = unavailable;
      const failure = reason === 'closed' ? 'rejected' : connectionFailure(error);
      this.failed(failure, describeUnavailable(reason, error), false);
      return;
    }
    this.isInFlight = true;
    deadlines.schedule(this);
    stallDetector?.sent();
    try {
      const replied = this.transmission.send(this);
      if (replied !== undefined) this.await(replied, true);
    } catch (error) {
      // A client of the application may throw, or be wrapped.
      this.rejected(error);
    }
  }

  onDeadline(): void {
    // After a blocked event loop, timers fire before input is read: read received replies first.
    setImmediate(() => {
      if (this.isInFlight) this.ended('unknown', 'no reply in time');
      else this.conclude(true);
    });
  }

  private await(replied: Promise<unknown>, isFirst: boolean): void {
    replied.then(
      (reply) => {
        this.onReply(reply);
      },
      (error: unknown) => {
        this.onRejection(error, isFirst);
      },
    );
  }

  onError(error: unknown): void {
    // After the handlers of promises, with which earlier replies may arrive: they must not confirm this one.
    queueMicrotask(() => {
      process.nextTick(() => {
        this.onRejection(error, true);
      });
    });
  }

  /** @param isFirst - of this attempt: it may be sent another way. */
  private onRejection(error: unknown, isFirst: boolean): void {
    if (isErrorReply(error)) this.doubt();
    // After the deadline, no caller would get the reply.
    if (isFirst && this.isInFlight) this.resend(error);
    else this.rejected(error);
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

  onReply(reply: unknown): void {
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
    if (!this.isInFlight) return;
    this.stopWaiting();
    if (transmission.continues?.(reply) === true) {
      this.send();
      return;
    }
    try {
      this.resolve(this.read(reply));
    } catch (error) {
      this.reject(error);
    }
  }

  /** Another attempt would add a command to the application's transaction. */
  private queued(): void {
    if (!this.isInFlight) return;
    this.stopWaiting();
    this.reject(new StoreOutcomeUnknownError(QUEUED, { isRejection: true }));
  }

  private mismatched(error: unknown): void {
    if (!this.isInFlight) return;
    this.stopWaiting();
    this.reject(error);
  }

  private rejected(error: unknown): void {
    this.watch.stallDetector?.settled();
    this.transmission.failed?.(error);
    if (hasCode(error, 'idempotency_store_reply_mismatched')) this.mismatched(error);
    else if (this.isInFlight) this.ended(classifyFailure(error), describeFailure(error));
  }

  /** An error reply has no nonce: on a connection out of step it says nothing about this command. */
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
    this.isInFlight = false;
    this.watch.deadlines.cancel(this);
  }

  /** @param wasSent - the command left the process. */
  private failed(failure: SendFailure, cause: string, wasSent: boolean): void {
    if (failure === 'misconfigured') {
      this.reject(new StoreConfigurationError(cause));
      return;
    }
    this.mayHaveRun ||= failure === 'unknown' || failure === 'unreplicated';
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.attempts, LONGEST_PAUSE_MS);
    this.attempts += 1;
    const leftMs = this.dueAt - nodeClock.now() - pauseMs;
    // WAIT has waited for the replicas already.
    const isFinal = failure === 'rejected' || failure === 'unreplicated';
    if (!isFinal && leftMs >= MIN_TIME_FOR_RETRY_MS) {
      void jitteredPause(pauseMs, nodeClock).then(() => {
        this.send();
      });
      return;
    }
    // A closed connection is final, too, but not a reply of the store.
    const isRejection = isFinal && wasSent;
    this.rejectLast = () => {
      this.reject(
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

  /** @param isTimeOver - doubts count as unknown. */
  private conclude(isTimeOver: boolean): void {
    const { rejectLast } = this;
    if (rejectLast === undefined) return;
    this.rejectLast = undefined;
    this.watch.deadlines.cancel(this);
    this.mayHaveRun ||= isTimeOver;
    rejectLast();
  }
}

/** Unsent means not executed. But a wrong password or address does not fix itself within the deadline. */
function connectionFailure(error: Error | undefined): SendFailure {
  const isLasting = classifyFailure(error) === 'misconfigured' || isForeign(error);
  return isLasting ? 'misconfigured' : 'not_executed';
}

function describeUnavailable(reason: 'not_connected' | 'closed', error: Error | undefined): string {
  if (error instanceof WrongDatabaseError) return error.message;
  const state = reason === 'closed' ? 'the connection is closed' : 'there is no connection';
  return error === undefined ? state : `${state} (${describeFailure(error)})`;
}
