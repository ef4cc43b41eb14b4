import type { OutgoingHttpHeaders } from 'node:http';
import type { Attempt, Settlement } from '../../core/attempt.js';
import type { RunningOperation } from '../../core/idempotency-context.js';
import { finishedRetentionMs, type OutcomeSummary } from '../../core/options.js';
import { asksToKeep, keepAnswers } from '../../core/outcome-policy.js';
import type { FinishedState, Outcome } from '../../core/record.js';
import type { AnswerSink, Replacement } from './answer-sink.js';
import { decodeAnswer, encodeAnswer, RESPONSE_NOT_KEPT, type HttpAnswer } from './http-answer.js';
import type { HttpRoute } from './http-route.js';
import { markedReplay } from './http-replay.js';
import { InProgressProblem, ResponseNotKeptProblem, StoreUnavailableProblem } from './problem.js';
import { addedHeaders } from './replay-headers.js';

/** How the handler ended. */
type HandlerEnd =
  | { readonly kind: 'returned'; readonly kept: boolean }
  | { readonly kind: 'threw'; readonly error: unknown };

/**
 * How long a client may be gone, the handler settled, and no answer made, before it counts as certain
 * that none comes: outer interceptors may still be at work.
 */
const NO_ANSWER_GRACE_MS = 1_000;

/**
 * One attempt on HTTP, from the handler's start to the last byte. It sees both ends: the handler's stream
 * says whether the operation succeeded, the wire says what the client got, and together they decide what
 * is stored (protocol, rule 3; contract, "The answer and its record"). The record is settled exactly once.
 */
export class HttpRun implements AnswerSink {
  private handlerEnd: HandlerEnd | undefined;
  private settled = false;
  private answeredFromOutside = false;
  private clientGone = false;
  private broken = false;
  private grace: NodeJS.Timeout | undefined;

  constructor(
    private readonly attempt: Attempt,
    private readonly route: HttpRoute,
    private readonly operation: RunningOperation,
    readonly headersBefore: OutgoingHttpHeaders,
  ) {}

  get maxHeldBytes(): number {
    return this.route.options.maxStoredBytes;
  }

  /** The handler's stream completed; `status` is the one set at this instant. */
  streamCompleted(status: number): void {
    if (this.isHandlerBehind()) return;
    // An answer from outside has overwritten the status, which then says nothing of the handler.
    const kept = this.answeredFromOutside || this.keeps({ status });
    this.handlerSettled({ kind: 'returned', kept });
  }

  /** The handler's stream failed. */
  streamFailed(error: unknown): void {
    if (!this.isHandlerBehind()) this.handlerSettled({ kind: 'threw', error });
  }

  /** The source of a streamed answer failed: what goes out is not the whole of it. */
  answerBroke(): void {
    this.broken = true;
  }

  /** The connection was closed before an answer was complete. */
  clientLeft(): void {
    this.clientGone = true;
    this.awaitAnswerOfGoneClient();
  }

  /**
   * Whether an answer that begins now comes from outside the handler: from an outer timeout, say, while
   * an ordinary handler goes on. Such an answer passes unrecorded (contract C60c).
   */
  isFromOutside(): boolean {
    return this.answeredFromOutside || (!this.route.isNative && this.handlerEnd === undefined);
  }

  /** An answer from outside has begun. */
  passFromOutside(): void {
    this.answeredFromOutside = true;
  }

  /** The answer is complete: settles the record, and says what may leave. */
  async answered(answer: HttpAnswer): Promise<Replacement> {
    if (!this.settle()) return undefined;
    const { options } = this.route;
    const verdict = this.verdictOn(answer.status);
    if (verdict === undefined) return this.release();
    const whole = options.storeBody && !this.broken && answer.body.length <= options.maxStoredBytes;
    const outcome = whole ? encodeAnswer(this.storedPartOf(answer)) : RESPONSE_NOT_KEPT;
    return this.complete(verdict, answer.status, outcome);
  }

  /**
   * The answer has outgrown what may be stored, and not all of it is there. Settles the record as
   * "response not kept" before the first byte leaves, if it is to be kept at all.
   */
  async outgrown(status: number): Promise<Replacement> {
    const verdict = this.verdictOn(status);
    if (verdict !== undefined) {
      return this.settle() ? this.complete(verdict, status, RESPONSE_NOT_KEPT) : undefined;
    }
    this.passFromOutside();
    if (this.handlerEnd !== undefined) this.settleWithoutAnswer(this.handlerEnd);
    return undefined;
  }

  /**
   * Whether an interceptor inside of the layer gave up on a handler that goes on (a timeout bound on
   * the route, say): then the stream says nothing of the handler, and is followed by an answer from outside.
   */
  private isHandlerBehind(): boolean {
    const { operation } = this;
    if (operation.progress !== 'running') return false;
    this.answeredFromOutside = true;
    operation.onSettled = () => {
      const returned = operation.progress === 'returned';
      this.handlerSettled(
        returned ? { kind: 'returned', kept: true } : { kind: 'threw', error: undefined },
      );
    };
    return true;
  }

  private handlerSettled(end: HandlerEnd): void {
    this.handlerEnd = end;
    if (this.answeredFromOutside) this.settleWithoutAnswer(end);
    else this.awaitAnswerOfGoneClient();
  }

  private awaitAnswerOfGoneClient(): void {
    const end = this.handlerEnd;
    if (!this.clientGone || end === undefined || this.settled) return;
    this.grace ??= setTimeout(() => {
      this.settleWithoutAnswer(end);
    }, NO_ANSWER_GRACE_MS);
  }

  /** No bytes to store: a success is kept as such all the same, for a repetition would repeat it. */
  private settleWithoutAnswer(end: HandlerEnd): void {
    if (!this.settle()) return;
    if (end.kind === 'returned' && end.kept)
      void this.complete('completed', 200, RESPONSE_NOT_KEPT);
    else void this.release();
  }

  /** @returns the state to keep the attempt's end in, or `undefined` to release it. */
  private verdictOn(status: number): FinishedState | undefined {
    const state = status >= 400 ? 'failed' : 'completed';
    const end = this.handlerEnd;
    if (!this.route.isNative && end?.kind === 'returned' && end.kept) {
      if (!this.keeps({ status })) this.attempt.responseDiverged();
      return state;
    }
    if (end?.kind === 'threw') {
      // Pipes and inner interceptors fail like a handler, but the operation has not begun (C88).
      const entered = this.operation.progress !== 'not_entered';
      return entered && this.keeps({ status, error: end.error }) ? state : undefined;
    }
    return this.keeps({ status }) ? state : undefined;
  }

  private keeps(summary: OutcomeSummary): boolean {
    return asksToKeep(this.route.options.keep, keepAnswers, summary);
  }

  private storedPartOf({ status, headers, body }: HttpAnswer): HttpAnswer {
    const { routeHeaders, replayHeaders } = this.route;
    return {
      status,
      headers: addedHeaders(this.headersBefore, headers, routeHeaders, replayHeaders),
      body,
    };
  }

  private async complete(
    state: FinishedState,
    status: number,
    outcome: Outcome,
  ): Promise<Replacement> {
    const summary: OutcomeSummary = { status };
    const retentionMs = finishedRetentionMs(this.route.protocol, { ...summary, state });
    return this.replacementFor(await this.attempt.complete({ state, outcome, retentionMs }));
  }

  private async release(): Promise<Replacement> {
    await this.attempt.release();
    return undefined;
  }

  private replacementFor(settlement: Settlement): Replacement {
    const { problems, options } = this.route;
    switch (settlement.kind) {
      case 'own':
        return undefined;
      case 'other': {
        const answer = decodeAnswer(settlement.outcome);
        return answer === undefined
          ? new ResponseNotKeptProblem(problems).toAnswer()
          : markedReplay(answer, options.replayHeader);
      }
      case 'in_progress':
        return new InProgressProblem(problems).toAnswer();
      case 'unsaved':
        return new StoreUnavailableProblem(problems).toAnswer();
    }
  }

  /** @returns whether this call is the one that settles. */
  private settle(): boolean {
    clearTimeout(this.grace);
    const first = !this.settled;
    this.settled = true;
    return first;
  }
}
