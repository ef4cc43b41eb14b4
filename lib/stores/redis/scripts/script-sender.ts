import { nodeClock } from '../../../core/util/clock.js';
import {
  hasCode,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
  type ValueNotStorableError,
} from '../../../core/errors/errors.js';
import { newNonce } from '../../../core/util/nonce.js';
import { DeadlineTimer, jitteredPause, type DeadlineListener } from '../../../core/util/time.js';
import type { RedisLink } from '../link/redis-link.js';
import { isQueued, isReplyTo, type ReplyOrder } from '../link/reply-order.js';
import type { LinkFailure } from '../link/send-failure.js';
import { LargeRecords, type RecordKeys } from './large-records.js';
import type { LuaScript, LuaScripts } from './lua-scripts.js';
import type { Asked, Question } from './question.js';
import { hasWritten, largeReplyOf, type ScriptReply } from './replies.js';
import type { ScriptArguments } from './script-arguments.js';

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** With less time left, another attempt would only turn "not executed" into "unknown". */
const MIN_TIME_FOR_RETRY_MS = 20;
const QUEUED =
  'The application has begun a transaction (MULTI) on the connection of the store. Redis executes the command with that transaction, or not at all. Give the store its own connection.';

/** What the servers in use compile. Shared by the links to them. */
export interface ScriptForm {
  /** Scripts with flags: a server has said so. Another one of its cluster may still not. */
  hasFlags: boolean;
}

/**
 * Sends commands until a reply arrives or their deadline has passed. One attempt may take all of the time: another would
 * queue behind it on the same connection. The next follows when the connection, or the server, has rejected the
 * previous one. A promise rejects with
 * - {@link StoreUnavailableError}: no attempt was executed,
 * - {@link StoreOutcomeUnknownError}: an attempt may have been executed, or may still be,
 * - {@link StoreReplyMismatchedError}: another command's reply arrived; the outcome of this one is unknown,
 * - {@link StoreConfigurationError}: the server rejects it.
 */
export class ScriptSender {
  /** @internal Of commands without a reply. */
  readonly deadlines = new DeadlineTimer(nodeClock);

  constructor(
    readonly link: RedisLink,
    readonly form: ScriptForm,
    private readonly scripts: LuaScripts,
    readonly large: LargeRecords,
  ) {}

  /**
   * Runs a script on a record: by its SHA-1, or with its text if the server does not have it.
   * @param keys - that of the record, and others of the script.
   * @param dueAt - the deadline, monotonic. A later reply is ignored.
   */
  run<Result>(
    script: LuaScript,
    keys: RecordKeys,
    args: ScriptArguments | ValueNotStorableError,
    dueAt: number,
    read: (reply: ScriptReply) => Result,
  ): Promise<Result> {
    if (args instanceof Error) return Promise.reject(args);
    return new Promise((resolve, reject) => {
      const sending = new Sending(this, script, keys, args, dueAt, read, resolve, reject);
      if (script === this.scripts.complete) {
        sending.question = this.large.staged(keys, args, dueAt);
      }
      sending.send();
    });
  }

  /** Sends something else than a script in the same way. @returns the reply that is the question's own. */
  ask(question: Question, dueAt: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const sending = new Sending(this, NO_SCRIPT, [''], [''], dueAt, itself, resolve, reject);
      sending.question = question;
      sending.send();
    });
  }
}

const NO_SCRIPT: LuaScript = { text: '', sha1: '' };

function itself(reply: unknown): unknown {
  return reply;
}

/** Has prototype methods and few fields: every request creates two. */
class Sending<Result> implements DeadlineListener, Asked {
  isInFlight = false;
  /** Sent in the place of the script. */
  question: Question | undefined = undefined;
  /** @internal */
  previousDeadline: DeadlineListener | undefined = undefined;
  /** @internal */
  nextDeadline: DeadlineListener | undefined = undefined;
  /** Whether this attempt has sent the text of the script. */
  private isText = false;
  private attempts = 0;
  private mayHaveRun = false;
  /** Error replies that may belong to another command. */
  private doubts = 0;
  /** Pending until those are resolved. */
  private rejectLast: (() => void) | undefined = undefined;

  constructor(
    private readonly sender: ScriptSender,
    private readonly script: LuaScript,
    private readonly keys: RecordKeys,
    /** The nonce is that of the last send. */
    readonly args: ScriptArguments,
    readonly dueAt: number,
    private readonly read: (reply: ScriptReply) => Result,
    private readonly resolve: (result: Result) => void,
    private readonly reject: (error: unknown) => void,
  ) {}

  send(): void {
    const { sender, question, args } = this;
    const { link, deadlines } = sender;
    const { sha1 } = this.compiled;
    const { unavailable } = link;
    if (unavailable !== undefined) {
      this.failed(unavailable, false);
      return;
    }
    this.isInFlight = true;
    deadlines.schedule(this);
    try {
      if (question === undefined) {
        this.isText = false;
        args[0] = newNonce();
        link.evalsha(sha1, this.keys, args, this);
      } else {
        question.send(this);
      }
    } catch (error) {
      // A client of the application may throw, or be wrapped.
      this.rejected(error, link.failureOf(error));
    }
  }

  newNonce(): string {
    return (this.args[0] = newNonce());
  }

  leaveToScript(): void {
    this.question = undefined;
  }

  sendScript(): void {
    this.question = undefined;
    this.stopWaiting();
    this.send();
  }

  onDeadline(): void {
    // After a blocked event loop, timers fire before input is read: read received replies first.
    setImmediate(() => {
      if (this.isInFlight) this.ended(NO_REPLY);
      else this.conclude(true);
    });
  }

  isOwn(reply: unknown): boolean {
    return this.question?.isOwn?.(reply) ?? isReplyTo(this.args[0], reply);
  }

  onReply(reply: unknown, order: ReplyOrder, unreplicated?: unknown): void {
    if (!this.isOwn(reply)) {
      this.settle(
        isQueued(reply)
          ? // Another attempt would add a command to the application's transaction.
            new StoreOutcomeUnknownError(QUEUED, { isRejection: true })
          : order.broken(),
      );
      return;
    }
    order.confirmed();
    if (!this.isInFlight) return;
    const { question } = this;
    const own = reply as ScriptReply;
    if (unreplicated !== undefined && question?.isOwn === undefined && hasWritten(own)) {
      this.onRejection(unreplicated, order, false);
      return;
    }
    this.stopWaiting();
    const large = question === undefined ? largeReplyOf(own) : undefined;
    if (large !== undefined) {
      this.question = this.sender.large.reading(this.keys[0], large);
      this.send();
    } else if (question?.isOpen?.(reply) === true) {
      this.sendScript();
    } else {
      try {
        this.resolve(this.read(own));
      } catch (error) {
        this.reject(error);
      }
    }
  }

  onError(error: unknown, order?: ReplyOrder): void {
    // After the handlers of promises, with which earlier replies may arrive: they must not confirm this one.
    queueMicrotask(() => {
      process.nextTick(() => {
        this.onRejection(error, order, true);
      });
    });
  }

  /** @param isUnwritten - another copy may be sent at once. */
  private onRejection(error: unknown, order: ReplyOrder | undefined, isUnwritten: boolean): void {
    const failure = this.sender.link.failureOf(error);
    if (failure.isReply && order !== undefined) this.doubt(order);
    try {
      // After the deadline, no caller would get the reply.
      if (isUnwritten && this.isInFlight && this.sendAgain(error, failure, order)) return;
      this.rejected(error, failure);
    } catch (thrown) {
      this.rejected(thrown, this.sender.link.failureOf(thrown));
    }
  }

  /** Sends the text of the script, or to another server. @returns false if that does not help. */
  private sendAgain(error: unknown, failure: LinkFailure, order: ReplyOrder | undefined): boolean {
    if (this.question?.sendAgain?.(failure, this) === true) return true;
    const { kind } = failure;
    const isElsewhere = kind === 'redirected';
    if (this.question !== undefined || this.isText) return false;
    if (!isElsewhere && kind !== 'script_missing') return false;
    const { keys, args } = this;
    this.isText = true;
    args[0] = newNonce();
    const redirection = isElsewhere ? { error, order } : undefined;
    this.sender.link.eval(this.compiled.text, keys, args, this, redirection);
    return true;
  }

  private get compiled(): LuaScript {
    const { script, sender } = this;
    return sender.form.hasFlags ? (script.flagged ?? script) : script;
  }

  /** Rejects the promise, whatever time is left. */
  private settle(error: unknown): void {
    if (!this.isInFlight) return;
    this.stopWaiting();
    this.reject(error);
  }

  private rejected(error: unknown, failure: LinkFailure): void {
    // From now on, every server gets the form that all of them compile.
    if (failure.kind === 'flags_unknown') this.sender.form.hasFlags = false;
    if (hasCode(error, 'idempotency_store_reply_mismatched')) this.settle(error);
    else if (this.isInFlight) this.ended(failure);
  }

  /** An error reply has no nonce: on a connection out of step it says nothing about this command. */
  private doubt(order: ReplyOrder): void {
    this.doubts += 1;
    order.errorReplied((isInPlace) => {
      this.doubts -= 1;
      this.mayHaveRun ||= !isInPlace;
      if (this.doubts === 0) this.conclude(false);
    });
  }

  private ended(failure: LinkFailure): void {
    this.stopWaiting();
    this.failed(failure, true);
  }

  private stopWaiting(): void {
    this.isInFlight = false;
    this.sender.deadlines.cancel(this);
  }

  /** @param wasSent - the command left the process. */
  private failed({ kind, cause }: LinkFailure, wasSent: boolean): void {
    if (kind === 'misconfigured') {
      this.reject(new StoreConfigurationError(cause));
      return;
    }
    this.mayHaveRun ||= kind === 'unknown' || kind === 'unreplicated';
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.attempts, LONGEST_PAUSE_MS);
    this.attempts += 1;
    const leftMs = this.dueAt - nodeClock.now() - pauseMs;
    // WAIT has waited for the replicas already.
    const isFinal = kind === 'rejected' || kind === 'unreplicated';
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
    else this.sender.deadlines.schedule(this);
  }

  /** @param isTimeOver - doubts count as unknown. */
  private conclude(isTimeOver: boolean): void {
    const { rejectLast } = this;
    if (rejectLast === undefined) return;
    this.rejectLast = undefined;
    this.sender.deadlines.cancel(this);
    this.mayHaveRun ||= isTimeOver;
    rejectLast();
  }
}

const NO_REPLY: LinkFailure = { kind: 'unknown', cause: 'no reply in time', isReply: false };
