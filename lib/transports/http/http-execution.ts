import type { OutgoingHttpHeaders } from 'node:http';
import { HttpException } from '@nestjs/common';
import type { Attempt, Settlement } from '../../core/operation/attempt.js';
import type { ExecutionScope } from '../../core/operation/execution-scope.js';
import { finishedRetentionMs, type OutcomeSummary } from '../../core/operation/options.js';
import { asksToKeep, keepResponses } from '../../core/operation/outcome-policy.js';
import type { FinishedState, Outcome } from '../../core/record/record.js';
import { markedReplay } from './http-replay.js';
import type { HttpRoute } from './http-route.js';
import {
  InProgressProblem,
  OutcomeUnknownProblem,
  ResponseNotKeptProblem,
  StoreUnavailableProblem,
  TransactionConflictProblem,
  type IdempotencyProblem,
} from './problem.js';
import { addedHeaders } from './replay-headers.js';
import {
  decodeResponse,
  encodeResponse,
  RESPONSE_NOT_KEPT,
  type RecordedResponse,
} from './response/http-response.js';
import type { ResponseSink, Replacement } from './response/response-sink.js';

/** How the handler's stream ended, as it is seen where the layer stands. */
type StreamEnd =
  | { readonly kind: 'completed'; readonly status: number; readonly isKept: boolean }
  | { readonly kind: 'failed'; readonly error: unknown };

/**
 * How long a client may be gone, the handler settled, and no answer made, before it counts as certain
 * that none comes: outer interceptors may still be at work.
 */
const NO_RESPONSE_GRACE_MS = 1_000;

/**
 * The same for a native handler that had written nothing when the client left: it may answer from a
 * callback.
 */
const NO_NATIVE_RESPONSE_GRACE_MS = 5_000;

/** Twice as long before a handler runs again the first time, and so on. */
const CONFLICT_PAUSE_MS = 10;

/**
 * One attempt on HTTP, from the handler's start to the last byte. It sees both ends: the handler's stream
 * says whether the operation succeeded, the wire says what the client got, and together they decide what
 * is stored (protocol, rule 3; contract, "The answer and its record"):
 *
 * | the answer begins | and the handler | the record |
 * |---|---|---|
 * | after its stream completed with a kept status | | is kept, whatever the wire says by then |
 * | after its stream completed otherwise | | by the policy, of the wire's status |
 * | after its stream failed | was entered | by the policy, of the wire's status and the error |
 * | | was not entered | is released |
 * | by a native handler | | by the policy, of the wire's status |
 * | before its stream ended, or while it runs on | returns later | is kept as "response not kept" |
 * | | throws later | is released |
 *
 * A record is released only when nothing of the handler is running any more.
 *
 * A transactional attempt is less forgiving, for what is rolled back can be repeated: it is released, too, where the
 * wire says that the answer of a handler that returned is not kept, and where there is no whole answer to be kept.
 */
export class HttpExecution implements ResponseSink {
  private streamEnd: StreamEnd | undefined;
  private isSettled = false;
  private latestStream = 0;
  /** Something no longer waits for the handler, and answers in its place. */
  private isAbandoned = false;
  /** An answer that is not the handler's has begun to leave. */
  private hasBypassed = false;
  /** Set once the client is gone. */
  private graceMs: number | undefined;
  private isSourceBroken = false;
  private conflicts = 0;
  private grace: NodeJS.Timeout | undefined;

  constructor(
    private readonly attempt: Attempt,
    private readonly route: HttpRoute,
    readonly operation: ExecutionScope,
    readonly headersBefore: OutgoingHttpHeaders,
    readonly statusBefore: number,
  ) {}

  get maxBufferedBytes(): number {
    return this.route.options.maxStoredBytes;
  }

  get marker(): string {
    return this.route.options.replayHeader;
  }

  get isStarted(): boolean {
    return this.latestStream > 0;
  }

  /**
   * The handler's stream begins, or begins again because an outer interceptor retries.
   *
   * @returns the number of the stream: what an older one says no longer counts.
   */
  streamStarted(): number {
    this.streamEnd = undefined;
    this.isAbandoned = false;
    this.latestStream += 1;
    return this.latestStream;
  }

  /** The handler's stream completed; `status` is the one set at this instant. */
  streamCompleted(stream: number, status: number): void {
    const { operation } = this;
    const isBehind = operation.isActive && !operation.hasReturned;
    this.streamEnded(
      stream,
      { kind: 'completed', status, isKept: this.keeps({ status }) },
      isBehind,
    );
  }

  /** The handler's stream failed. */
  streamFailed(stream: number, error: unknown): void {
    this.streamEnded(stream, { kind: 'failed', error }, this.operation.isActive);
  }

  /** An outer interceptor stopped listening before anything came. */
  streamAbandoned(stream: number): void {
    if (stream === this.latestStream && this.streamEnd === undefined) this.isAbandoned = true;
  }

  /** Nobody waits for it any more, and the handler was not called. */
  async abandon(): Promise<void> {
    if (this.settles()) await this.attempt.release();
  }

  onSourceError(): void {
    this.isSourceBroken = true;
  }

  /**
   * The connection was closed.
   *
   * @param hasBegun - whether some of the answer had been written, or the handler not even called.
   */
  clientDisconnected(hasBegun: boolean): void {
    const mayStillRespond = this.route.isNative && !hasBegun;
    this.graceMs = mayStillRespond ? NO_NATIVE_RESPONSE_GRACE_MS : NO_RESPONSE_GRACE_MS;
    this.awaitResponseAfterDisconnect();
  }

  isBypass(): boolean {
    if (this.hasBypassed || this.isAbandoned) return true;
    return !this.route.isNative && this.streamEnd === undefined;
  }

  onBypass(): void {
    this.hasBypassed = true;
    this.settleAfterBypass();
  }

  async onComplete(response: RecordedResponse): Promise<Replacement> {
    const state = this.finishedStateOf(response.status);
    if (state === undefined) return this.settleUnkept(response.status);
    if (!this.settles()) return undefined;
    return await this.complete(state, response.status, this.outcomeOf(response));
  }

  /** Whether a concurrent transaction was in the way. What the application says of its own accord stands. */
  isConflict(error: unknown): boolean {
    if (error instanceof HttpException) return false;
    return this.attempt.transaction?.isConflict(error) ?? false;
  }

  /** Makes ready for the handler to run again, after a conflict. @returns whether it may. */
  async mayRunAgain(): Promise<boolean> {
    if (this.conflicts >= this.route.protocol.conflictRetries) return false;
    if (this.isAbandoned || this.hasBypassed) return false;
    this.conflicts += 1;
    return this.startOver(CONFLICT_PAUSE_MS * 2 ** this.conflicts);
  }

  /** Gives the handler another transaction: what it has written in the last one is gone. @returns whether it may run. */
  async startOver(pauseMs = 0): Promise<boolean> {
    const { operation } = this;
    if (operation.isActive || this.isSettled) return false;
    if ((await this.attempt.transaction?.restart(pauseMs)) !== true) return false;
    operation.startOver();
    return true;
  }

  conflicted(): void {
    this.attempt.transaction?.conflicted();
  }

  unavailable(): IdempotencyProblem {
    return new StoreUnavailableProblem(this.route.problems);
  }

  /** What the caller is told in place of a failure that is its transaction's: that it may be tried again. */
  problemOf(error: unknown): IdempotencyProblem | undefined {
    if (this.isConflict(error)) return new TransactionConflictProblem(this.route.problems);
    return this.isInterrupted(error) ? this.unavailable() : undefined;
  }

  async onOverflow(status: number): Promise<Replacement> {
    const state = this.finishedStateOf(status);
    if (state === undefined) return this.settleUnkept(status);
    return this.settles() ? this.complete(state, status, RESPONSE_NOT_KEPT) : undefined;
  }

  /** @param isBehind - the handler goes on: an interceptor inside of the layer gave up on it. */
  private streamEnded(stream: number, end: StreamEnd, isBehind: boolean): void {
    if (stream !== this.latestStream) return;
    this.streamEnd = end;
    this.isAbandoned ||= isBehind;
    this.settleAfterBypass();
    this.awaitResponseAfterDisconnect();
  }

  /** Nothing of the handler's answer is there to be kept: how it ends decides, once it has ended. */
  private settleAfterBypass(): void {
    if (!(this.hasBypassed || this.isAbandoned) || this.streamEnd === undefined) return;
    const { operation } = this;
    const end = this.streamEnd;
    operation.whenIdle(() => {
      // The stream's status is not asked: the answer from outside has overwritten it.
      const hasSucceeded = operation.isEntered ? operation.hasReturned : end.kind === 'completed';
      if (end === this.streamEnd) this.settleWithoutResponse(hasSucceeded);
    });
  }

  private awaitResponseAfterDisconnect(): void {
    const end = this.streamEnd;
    if (this.graceMs === undefined || end === undefined || this.isSettled) return;
    clearTimeout(this.grace);
    this.grace = setTimeout(() => {
      this.settleWithoutResponse(end.kind === 'completed' && end.isKept);
    }, this.graceMs);
    this.grace.unref();
  }

  /** A success without bytes is kept all the same, for a repetition would repeat it. */
  private settleWithoutResponse(hasSucceeded: boolean): void {
    if (!this.settles()) return;
    if (hasSucceeded && !this.isTransactional)
      void this.complete('completed', this.lastStatus(), RESPONSE_NOT_KEPT);
    else void this.attempt.release();
  }

  private lastStatus(): number {
    return this.streamEnd?.kind === 'completed' ? this.streamEnd.status : 200;
  }

  /** @returns the state to keep the attempt's end in, or `undefined` to release it. */
  private finishedStateOf(status: number): FinishedState | undefined {
    const state = status >= 400 ? 'failed' : 'completed';
    const end = this.streamEnd;
    const { isEntered } = this.operation;
    if (end?.kind === 'failed') {
      if (this.isConflict(end.error) || this.isInterrupted(end.error)) return undefined;
      // Pipes and inner interceptors fail like a handler, but the operation has not begun (C88).
      return isEntered && this.keeps({ status, error: end.error }) ? state : undefined;
    }
    const isKept = this.keeps({ status });
    if (this.isTransactional) return isKept && !this.isSourceBroken ? state : undefined;
    if (!this.route.isNative && isEntered && end?.isKept === true) {
      if (!isKept) this.attempt.responseDiverged();
      return state;
    }
    return isKept ? state : undefined;
  }

  /** The same for its connection. */
  private isInterrupted(error: unknown): boolean {
    if (error instanceof HttpException) return false;
    return this.attempt.transaction?.isInterruption(error) ?? false;
  }

  /** Whether the handler's writes are rolled back with a failure. */
  get isTransactional(): boolean {
    return this.attempt.transaction !== undefined;
  }

  private keeps(summary: OutcomeSummary): boolean {
    return asksToKeep(this.route.options.keep, keepResponses, summary);
  }

  private outcomeOf(response: RecordedResponse): Outcome {
    const { storeBody, maxStoredBytes } = this.route.options;
    const isWhole = storeBody && !this.isSourceBroken && response.body.length <= maxStoredBytes;
    if (!isWhole) return RESPONSE_NOT_KEPT;
    try {
      return encodeResponse(this.storedPartOf(response));
    } catch {
      // Whatever cannot be written down: the effect has happened, and is not to happen again.
      return RESPONSE_NOT_KEPT;
    }
  }

  private storedPartOf({ status, headers, body }: RecordedResponse): RecordedResponse {
    const { routeHeaders, replayHeaders } = this.route;
    return {
      status,
      headers: addedHeaders(this.headersBefore, headers, routeHeaders, replayHeaders),
      body,
    };
  }

  private complete(state: FinishedState, status: number, outcome: Outcome): Promise<Replacement> {
    const retentionMs = finishedRetentionMs(this.route.protocol, { status, state });
    const undo = this.isTransactional && this.hasFailed(status);
    const final = { state, outcome, retentionMs, undo };
    return this.attempt.complete(final).then((settlement) => this.replacementFor(settlement));
  }

  /** The handler threw, or something behind it turned its success into a failure. */
  private hasFailed(status: number): boolean {
    const end = this.streamEnd;
    if (end?.kind !== 'completed' || this.operation.hasThrown) return true;
    return end.status < 400 && status >= 400;
  }

  /** A success that is not to be kept has happened all the same: whoever is told of it finds what it has written. */
  private async settleUnkept(status: number): Promise<Replacement> {
    const { transaction } = this.attempt;
    const hasSucceeded = status < 400 && this.streamEnd?.kind === 'completed';
    const isUndone = this.hasFailed(status) || this.isSourceBroken;
    if (transaction === undefined || !hasSucceeded || isUndone) return this.releaseOnceIdle();
    return this.settles() ? this.replacementFor(await transaction.commitUnkept()) : undefined;
  }

  /** The answer waits for the release, so that a retry at once finds the key free; not for the handler. */
  private async releaseOnceIdle(): Promise<Replacement> {
    if (!this.operation.isActive) {
      if (this.settles()) await this.attempt.release();
      return undefined;
    }
    this.operation.whenIdle(() => {
      if (this.settles()) void this.attempt.release();
    });
    return undefined;
  }

  private replacementFor(settlement: Settlement): Replacement {
    const { problems, options } = this.route;
    switch (settlement.kind) {
      case 'own':
        return undefined;
      case 'other': {
        const response = decodeResponse(settlement.outcome);
        return response === undefined
          ? new ResponseNotKeptProblem(problems).toResponse()
          : markedReplay(response, options.replayHeader);
      }
      case 'unknown':
        return new OutcomeUnknownProblem(problems).toResponse();
      case 'in_progress':
        return new InProgressProblem(problems).toResponse();
      case 'unsaved':
        return new StoreUnavailableProblem(problems).toResponse();
      case 'conflict':
        return new TransactionConflictProblem(problems).toResponse();
    }
  }

  /** @returns whether this call is the one that settles the attempt; the others have come too late. */
  private settles(): boolean {
    clearTimeout(this.grace);
    const isFirst = !this.isSettled;
    this.isSettled = true;
    return isFirst;
  }
}
