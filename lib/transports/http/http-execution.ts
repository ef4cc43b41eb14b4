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
import type { Outcome } from '../../core/record/record.js';
import type { RejectionCode } from '../../core/util/rejections.js';
import { markedReplay } from './http-replay.js';
import type { HttpRoute } from './http-route.js';
import {
  INITIAL_STATE,
  settle,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
} from '../../core/engine/settlement.js';
import { IdempotencyProblem } from './problem.js';
import { addedHeaders } from './replay-headers.js';
import {
  decodeResponse,
  encodeResponse,
  RESPONSE_NOT_KEPT,
  type RecordedResponse,
} from './response/http-response.js';
import type { ResponseSink, Replacement } from './response/response-sink.js';

/** Doubled before each run after a conflict, including the first: 20 ms, 40 ms, … */
const CONFLICT_PAUSE_MS = 10;

/** One attempt on HTTP, from the handler's start to the last byte. What happens to its record, {@link settle} decides. */
export class HttpExecution implements ResponseSink, SettlementRules {
  readonly isTransactional: boolean;
  private state = INITIAL_STATE;
  private conflicts = 0;
  private grace: NodeJS.Timeout | undefined;

  constructor(
    private readonly attempt: Attempt,
    private readonly route: HttpRoute,
    readonly operation: ExecutionScope,
    readonly headersBefore: OutgoingHttpHeaders,
    readonly statusBefore: number,
  ) {
    this.isTransactional = attempt.transaction !== undefined;
    operation.listener = (kind) => {
      this.report({ kind });
    };
  }

  get isNative(): boolean {
    return this.route.isNative;
  }

  keeps(summary: OutcomeSummary): boolean {
    return asksToKeep(this.route.options.outcome.keep, keepResponses, summary);
  }

  get maxBufferedBytes(): number {
    return this.route.options.outcome.maxBytes;
  }

  get marker(): string {
    return this.route.options.http.replayHeader;
  }

  get isStarted(): boolean {
    return this.state.facts.stream > 0;
  }

  /** A stream starts, again if an outer interceptor retries. @returns its number: events of older ones are ignored. */
  streamStarted(): number {
    this.report({ kind: 'streamStarted' });
    return this.state.facts.stream;
  }

  streamCompleted(stream: number, status: number): void {
    this.report({ kind: 'streamCompleted', stream, status });
  }

  streamFailed(stream: number, error: unknown): void {
    const isRetryable = this.isConflict(error) || this.isInterrupted(error);
    this.report({ kind: 'streamFailed', stream, error, isRetryable });
  }

  /** An outer interceptor unsubscribed before the stream emitted. */
  streamAbandoned(stream: number): void {
    this.report({ kind: 'streamAbandoned', stream });
  }

  /** Ends an execution whose handler was not called, and will not be. */
  abandon(): void {
    this.report({ kind: 'notCalled' });
  }

  /** The connection closed. @param hasBegun - part of the response was written, or the handler was never called. */
  clientDisconnected(hasBegun: boolean): void {
    this.report({ kind: 'clientGone', hasBegun });
  }

  onStart(): 'hold' | 'pass' {
    return this.signal({ kind: 'responseStarted' })?.kind === 'hold' ? 'hold' : 'pass';
  }

  onSourceError(): void {
    this.report({ kind: 'sourceBroken' });
  }

  onComplete(response: RecordedResponse): Promise<Replacement> {
    const effect = this.signal({ kind: 'responseComplete', status: response.status });
    return this.execute(effect, response) ?? Promise.resolve(undefined);
  }

  onOverflow(status: number): Promise<Replacement> {
    return this.execute(this.signal({ kind: 'overflow', status })) ?? Promise.resolve(undefined);
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
    if (this.state.phase === 'respondedEarly') return false;
    this.conflicts += 1;
    return this.startOver(CONFLICT_PAUSE_MS * 2 ** this.conflicts);
  }

  /** Replaces the handler's transaction; the last one's writes are rolled back. @returns whether it may run. */
  async startOver(pauseMs = 0): Promise<boolean> {
    const { phase, facts } = this.state;
    if (facts.isActive || phase === 'settled') return false;
    if ((await this.attempt.transaction?.restart(pauseMs)) !== true) return false;
    this.operation.startOver();
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

  private isInterrupted(error: unknown): boolean {
    if (error instanceof HttpException) return false;
    return this.attempt.transaction?.isInterruption(error) ?? false;
  }

  /** Signals what no response waits for. */
  private report(signal: SettlementSignal): void {
    void this.execute(this.signal(signal));
  }

  private signal(signal: SettlementSignal): SettlementEffect | undefined {
    const { state, effect } = settle(this.state, signal, this);
    this.state = state;
    return effect;
  }

  /** @returns when the response may be sent, or which one instead; `undefined` if it need not wait. */
  private execute(
    effect: SettlementEffect | undefined,
    response?: RecordedResponse,
  ): Promise<Replacement> | undefined {
    switch (effect?.kind) {
      case 'complete':
        return this.complete(effect, response);
      case 'commit':
        clearTimeout(this.grace);
        return this.attempt.transaction
          ?.commitUnkept()
          .then((settlement) => this.replacementFor(settlement));
      case 'release':
        clearTimeout(this.grace);
        return this.attempt.release().then(() => undefined);
      case 'wait':
        clearTimeout(this.grace);
        this.grace = setTimeout(() => {
          this.report({ kind: 'graceOver' });
        }, effect.ms);
        this.grace.unref();
        return undefined;
      default:
        return undefined;
    }
  }

  private complete(
    effect: Extract<SettlementEffect, { kind: 'complete' }>,
    response: RecordedResponse | undefined,
  ): Promise<Replacement> {
    clearTimeout(this.grace);
    if (effect.hasDiverged) this.attempt.responseDiverged();
    const { state, status, isResponseKept, undo } = effect;
    const isKept = response !== undefined && isResponseKept;
    const outcome = isKept ? this.outcomeOf(response) : RESPONSE_NOT_KEPT;
    const retentionMs = finishedRetentionMs(this.route.options, { status, state });
    return this.attempt
      .complete({ state, outcome, retentionMs, undo })
      .then((settlement) => this.replacementFor(settlement));
  }

  private outcomeOf(response: RecordedResponse): Outcome {
    const { storeBody, maxBytes } = this.route.options.outcome;
    if (!storeBody || response.body.length > maxBytes) return RESPONSE_NOT_KEPT;
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
}
