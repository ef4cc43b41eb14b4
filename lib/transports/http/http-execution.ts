import type { OutgoingHttpHeaders } from 'node:http';
import { HttpException } from '@nestjs/common';
import { REJECTION_CODES, type Attempt, type Settlement } from '../../core/operation/attempt.js';
import type { ExecutionScope } from '../../core/operation/execution-scope.js';
import { finishedRetentionMs } from '../../core/operation/options.js';
import {
  asksToKeep,
  keepResponses,
  type OutcomeSummary,
} from '../../core/operation/outcome-policy.js';
import type { FinishedState, Outcome } from '../../core/record/record.js';
import type { RejectionCode } from '../../core/util/rejections.js';
import { markedReplay } from './http-replay.js';
import type { HttpRoute } from './http-route.js';
import { IdempotencyProblem } from './problem.js';
import { addedHeaders } from './replay-headers.js';
import {
  decodeResponse,
  encodeResponse,
  RESPONSE_NOT_KEPT,
  type RecordedResponse,
} from './response/http-response.js';
import type { ResponseSink, Replacement } from './response/response-sink.js';
import { SettlementShadow } from './settlement-shadow.js';

type StreamEnd =
  | { readonly kind: 'completed'; readonly status: number; readonly isKept: boolean }
  | { readonly kind: 'failed'; readonly error: unknown };

/** The wait for a response after the client has left and the handler ended: outer interceptors may still make one. */
const NO_RESPONSE_GRACE_MS = 1_000;

/** The same for a native handler that has written nothing so far: it may respond from a callback. */
const NO_NATIVE_RESPONSE_GRACE_MS = 5_000;

/** Doubled before each run after a conflict, including the first: 20 ms, 40 ms, … */
const CONFLICT_PAUSE_MS = 10;

/**
 * One attempt on HTTP, from the handler's start to the last byte. The handler's stream shows whether the operation
 * succeeded, the wire shows what the client received, and both decide what is stored (protocol, rule 3; contract, "The
 * response and its record"):
 *
 * | the response begins | and the handler | the record |
 * |---|---|---|
 * | after its stream completed with a kept status | | is kept, whatever the wire's status |
 * | after its stream completed otherwise | | by the policy, from the wire's status |
 * | after its stream failed | was entered | by the policy, from the wire's status and the error |
 * | | was not entered | is released |
 * | in a native handler | | by the policy, from the wire's status |
 * | before its stream ended, or while the handler is still running | returns later | is kept as "response not kept" |
 * | | throws later | is released |
 *
 * A record is released only after the handler has stopped running.
 *
 * A transactional attempt is stricter, because a rolled-back operation can run again: it is also released if the policy
 * does not keep the wire's status, or if there is no complete response to keep.
 */
export class HttpExecution implements ResponseSink {
  private streamEnd: StreamEnd | undefined;
  private isSettled = false;
  private latestStream = 0;
  /** An interceptor stopped waiting for the handler and responds in its place. */
  private isAbandoned = false;
  /** A response that is not the handler's has begun. */
  private hasBypassed = false;
  private graceMs: number | undefined;
  private isSourceBroken = false;
  private conflicts = 0;
  private grace: NodeJS.Timeout | undefined;
  private readonly shadow: SettlementShadow | undefined;

  constructor(
    private readonly attempt: Attempt,
    private readonly route: HttpRoute,
    readonly operation: ExecutionScope,
    readonly headersBefore: OutgoingHttpHeaders,
    readonly statusBefore: number,
  ) {
    this.shadow = SettlementShadow.of({
      isNative: route.isNative,
      isTransactional: this.isTransactional,
      keeps: this.keeps.bind(this),
    });
    if (this.shadow !== undefined) {
      operation.listener = (kind) => this.shadow?.signal({ kind });
    }
  }

  get maxBufferedBytes(): number {
    return this.route.options.outcome.maxBytes;
  }

  get marker(): string {
    return this.route.options.http.replayHeader;
  }

  get isStarted(): boolean {
    return this.latestStream > 0;
  }

  /** A stream starts, again if an outer interceptor retries. @returns its number: events of older ones are ignored. */
  streamStarted(): number {
    clearTimeout(this.grace);
    this.streamEnd = undefined;
    this.isAbandoned = false;
    this.latestStream += 1;
    this.shadow?.signal({ kind: 'streamStarted' });
    return this.latestStream;
  }

  streamCompleted(stream: number, status: number): void {
    const { operation } = this;
    const isBehind = operation.isActive && !operation.hasReturned;
    this.streamEnded(
      stream,
      { kind: 'completed', status, isKept: this.keeps({ status }) },
      isBehind,
    );
    this.shadow?.signal({ kind: 'streamCompleted', stream, status });
  }

  streamFailed(stream: number, error: unknown): void {
    this.streamEnded(stream, { kind: 'failed', error }, this.operation.isActive);
    const isRetryable = this.isConflict(error) || this.isInterrupted(error);
    this.shadow?.signal({ kind: 'streamFailed', stream, error, isRetryable });
  }

  /** An outer interceptor unsubscribed before the stream emitted. */
  streamAbandoned(stream: number): void {
    if (stream === this.latestStream && this.streamEnd === undefined) this.isAbandoned = true;
    this.shadow?.signal({ kind: 'streamAbandoned', stream });
  }

  /** Ends an execution whose handler was not called, and will not be. */
  async abandon(): Promise<void> {
    const released = this.settles() ? this.release() : undefined;
    this.shadow?.signal({ kind: 'notCalled' });
    await released;
  }

  onSourceError(): void {
    this.isSourceBroken = true;
    this.shadow?.signal({ kind: 'sourceBroken' });
  }

  /** The connection closed. @param hasBegun - part of the response was written, or the handler was never called. */
  clientDisconnected(hasBegun: boolean): void {
    const mayStillRespond = this.route.isNative && !hasBegun;
    this.graceMs = mayStillRespond ? NO_NATIVE_RESPONSE_GRACE_MS : NO_RESPONSE_GRACE_MS;
    this.awaitResponseAfterDisconnect();
    this.shadow?.signal({ kind: 'clientGone', hasBegun });
  }

  isBypass(): boolean {
    const isEarly = !this.route.isNative && this.streamEnd === undefined;
    const isBypass = this.hasBypassed || this.isAbandoned || isEarly;
    this.shadow?.decides({ kind: isBypass ? 'pass' : 'hold' });
    this.shadow?.signal({ kind: 'responseStarted' });
    return isBypass;
  }

  onBypass(): void {
    this.hasBypassed = true;
    this.settleAfterBypass();
  }

  onComplete(response: RecordedResponse): Promise<Replacement> {
    const { status } = response;
    const outcomeOf = () => this.outcomeOf(response);
    const settled = this.settleBy(status, outcomeOf, !this.isSourceBroken);
    this.shadow?.signal({ kind: 'responseComplete', status });
    return settled;
  }

  private async settleBy(
    status: number,
    outcomeOf: () => Outcome,
    isResponseKept: boolean,
  ): Promise<Replacement> {
    const finished = this.finishedStateOf(status);
    if (finished === undefined) return this.settleUnkept(status);
    if (!this.settles()) return this.pass();
    const { state, hasDiverged } = finished;
    if (hasDiverged) this.attempt.responseDiverged();
    return await this.complete(state, status, outcomeOf(), { isResponseKept, hasDiverged });
  }

  private pass(): Replacement {
    this.shadow?.decides({ kind: 'pass' });
    return undefined;
  }

  /** Whether the error is a conflict with another transaction. An `HttpException` is the application's own response. */
  isConflict(error: unknown): boolean {
    if (error instanceof HttpException) return false;
    return this.attempt.transaction?.isConflict(error) ?? false;
  }

  /** Prepares another run of the handler after a conflict. @returns whether it may run. */
  async mayRunAgain(): Promise<boolean> {
    const { transaction } = this.route.options;
    if (transaction === false || this.conflicts >= transaction.conflictRetries) return false;
    if (this.isAbandoned || this.hasBypassed) return false;
    this.conflicts += 1;
    return this.startOver(CONFLICT_PAUSE_MS * 2 ** this.conflicts);
  }

  /** Replaces the handler's transaction; the last one's writes are rolled back. @returns whether it may run. */
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
    return this.problem('idempotency_store_unavailable');
  }

  /** The retryable problem that replaces an error of the transaction. */
  problemOf(error: unknown): IdempotencyProblem | undefined {
    if (this.isConflict(error)) return this.problem('idempotency_transaction_conflict');
    return this.isInterrupted(error) ? this.unavailable() : undefined;
  }

  onOverflow(status: number): Promise<Replacement> {
    const settled = this.settleBy(status, () => RESPONSE_NOT_KEPT, false);
    this.shadow?.signal({ kind: 'overflow', status });
    return settled;
  }

  /** @param isBehind - the handler is still running: an inner interceptor stopped waiting for it. */
  private streamEnded(stream: number, end: StreamEnd, isBehind: boolean): void {
    if (stream !== this.latestStream) return;
    this.streamEnd = end;
    this.isAbandoned ||= isBehind;
    this.settleAfterBypass();
    this.awaitResponseAfterDisconnect();
  }

  /** There is no response of the handler to keep, so the handler's end decides. */
  private settleAfterBypass(): void {
    if (!(this.hasBypassed || this.isAbandoned) || this.streamEnd === undefined) return;
    const { operation } = this;
    const end = this.streamEnd;
    operation.whenIdle(() => {
      // Not by the stream's status: the bypassing response has overwritten it.
      const hasSucceeded = operation.isEntered ? operation.hasReturned : end.kind === 'completed';
      if (end === this.streamEnd) this.settleWithoutResponse(hasSucceeded);
    });
  }

  private awaitResponseAfterDisconnect(): void {
    const end = this.streamEnd;
    if (this.graceMs === undefined || end === undefined || this.isSettled) return;
    // The end of the handler decides.
    if (this.hasBypassed || this.isAbandoned) return;
    clearTimeout(this.grace);
    this.shadow?.decides({ kind: 'wait', ms: this.graceMs });
    this.grace = setTimeout(() => {
      if (this.operation.isActive) this.awaitResponseAfterDisconnect();
      else this.settleWithoutResponse(end.kind === 'completed' && end.isKept);
      this.shadow?.signal({ kind: 'graceOver' });
    }, this.graceMs);
    this.grace.unref();
  }

  /** Keeps a success without its response, because a retry would run the operation a second time. */
  private settleWithoutResponse(hasSucceeded: boolean): void {
    if (!this.settles()) return;
    if (hasSucceeded && !this.isTransactional)
      void this.complete('completed', this.lastStatus(), RESPONSE_NOT_KEPT, {
        isResponseKept: false,
        hasDiverged: false,
      });
    else void this.release();
  }

  private lastStatus(): number {
    return this.streamEnd?.kind === 'completed' ? this.streamEnd.status : 200;
  }

  /** @returns the finished state of the record, or `undefined` to release it. */
  private finishedStateOf(
    status: number,
  ): { readonly state: FinishedState; readonly hasDiverged: boolean } | undefined {
    const state = status >= 400 ? 'failed' : 'completed';
    const finished = { state, hasDiverged: false } as const;
    const end = this.streamEnd;
    const { isEntered } = this.operation;
    if (end?.kind === 'failed') {
      if (this.isConflict(end.error) || this.isInterrupted(end.error)) return undefined;
      // Pipes and inner interceptors fail like a handler, but the operation has not started (C88).
      return isEntered && this.keeps({ status, error: end.error }) ? finished : undefined;
    }
    const isKept = this.keeps({ status });
    if (this.isTransactional) return isKept && !this.isSourceBroken ? finished : undefined;
    if (!this.route.isNative && isEntered && end?.isKept === true) {
      return { state, hasDiverged: !isKept };
    }
    return isKept ? finished : undefined;
  }

  private isInterrupted(error: unknown): boolean {
    if (error instanceof HttpException) return false;
    return this.attempt.transaction?.isInterruption(error) ?? false;
  }

  get isTransactional(): boolean {
    return this.attempt.transaction !== undefined;
  }

  private keeps(summary: OutcomeSummary): boolean {
    return asksToKeep(this.route.options.outcome.keep, keepResponses, summary);
  }

  private outcomeOf(response: RecordedResponse): Outcome {
    const { storeBody, maxBytes } = this.route.options.outcome;
    const isWhole = storeBody && !this.isSourceBroken && response.body.length <= maxBytes;
    if (!isWhole) return RESPONSE_NOT_KEPT;
    try {
      return encodeResponse(this.storedPartOf(response));
    } catch {
      // The response cannot be serialized. The effect has happened, and must not happen again.
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

  private release(): Promise<void> {
    this.shadow?.decides({ kind: 'release' });
    return this.attempt.release();
  }

  private complete(
    state: FinishedState,
    status: number,
    outcome: Outcome,
    shown: { readonly isResponseKept: boolean; readonly hasDiverged: boolean },
  ): Promise<Replacement> {
    const retentionMs = finishedRetentionMs(this.route.options, { status, state });
    const undo = this.isTransactional && this.hasFailed(status);
    const final = { state, outcome, retentionMs, undo };
    this.shadow?.decides({ kind: 'complete', state, status, undo, ...shown });
    return this.attempt.complete(final).then((settlement) => this.replacementFor(settlement));
  }

  /** The handler threw, or an interceptor or filter turned its success into a failure. */
  private hasFailed(status: number): boolean {
    const end = this.streamEnd;
    if (end?.kind !== 'completed' || this.operation.hasThrown) return true;
    return end.status < 400 && status >= 400;
  }

  /** Still commits a transactional success whose response is not kept: its client must find what it wrote. */
  private async settleUnkept(status: number): Promise<Replacement> {
    const { transaction } = this.attempt;
    const hasSucceeded = status < 400 && this.streamEnd?.kind === 'completed';
    const isUndone = this.hasFailed(status) || this.isSourceBroken;
    if (transaction === undefined || !hasSucceeded || isUndone) return this.releaseOnceIdle();
    if (!this.settles()) return this.pass();
    this.shadow?.decides({ kind: 'commit' });
    return this.replacementFor(await transaction.commitUnkept());
  }

  /** The response waits for the release, so that an immediate retry finds the key free, but not for the handler. */
  private async releaseOnceIdle(): Promise<Replacement> {
    if (!this.operation.isActive) {
      if (!this.settles()) return this.pass();
      await this.release();
      return undefined;
    }
    this.operation.whenIdle(() => {
      if (this.settles()) void this.release();
    });
    return this.pass();
  }

  private replacementFor(settlement: Settlement): Replacement {
    switch (settlement.kind) {
      case 'own':
        return undefined;
      case 'other': {
        const response = decodeResponse(settlement.outcome);
        return response === undefined
          ? this.problem('idempotency_response_not_kept').toResponse()
          : markedReplay(response, this.route.options.http.replayHeader);
      }
      default:
        return this.problem(REJECTION_CODES[settlement.kind]).toResponse();
    }
  }

  private problem(code: RejectionCode): IdempotencyProblem {
    return IdempotencyProblem.of(code, this.route.problems);
  }

  /** @returns whether this call settles the attempt. Only the first one does. */
  private settles(): boolean {
    clearTimeout(this.grace);
    const isFirst = !this.isSettled;
    this.isSettled = true;
    return isFirst;
  }
}
