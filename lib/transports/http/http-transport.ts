import { StreamableFile, type CallHandler, type ExecutionContext } from '@nestjs/common';
import { defer, Observable, of } from 'rxjs';
import type { Attempt } from '../../core/attempt.js';
import type { Claim } from '../../core/claim.js';
import type { RejectionReason } from '../../core/events.js';
import { contextOf, RunningOperation, runningOperation } from '../../core/idempotency-context.js';
import type { IdempotencyEngine } from '../../core/idempotency-engine.js';
import type { Outcome } from '../../core/record.js';
import { decodeAnswer } from './http-answer.js';
import { httpClaim } from './http-claim.js';
import { httpExchange, type HttpExchange } from './http-exchange.js';
import { HttpReplay, markedReplay } from './http-replay.js';
import type { HttpRoute } from './http-route.js';
import { HttpRun } from './http-run.js';
import {
  InProgressProblem,
  KeyReusedProblem,
  OutcomeUnknownProblem,
  ResponseNotKeptProblem,
  ShuttingDownProblem,
  StoreUnavailableProblem,
  type IdempotencyProblem,
  type ProblemContext,
} from './problem.js';
import { refuse } from './refusal.js';

/** Safe methods have no effect that could happen twice (RFC 9110 §9.2.1): the key is ignored (contract C21). */
const UNPROTECTED_METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

const PROBLEMS: Record<RejectionReason, new (context: ProblemContext) => IdempotencyProblem> = {
  mismatch: KeyReusedProblem,
  in_progress: InProgressProblem,
  outcome_unknown: OutcomeUnknownProblem,
  store_unavailable: StoreUnavailableProblem,
  shutting_down: ShuttingDownProblem,
};

/** A run without a record says so (`onStoreUnavailable: 'execute'`). */
const STATUS_HEADER = 'Idempotency-Status';

/** Requests that are being dealt with: decorating class and method must not protect them twice. */
const underWay = new WeakSet();

/** Protects HTTP routes, on Express and Fastify alike. */
export class HttpTransport {
  constructor(private readonly engine: IdempotencyEngine) {}

  /**
   * Runs the handler, or answers in its place.
   *
   * @throws {@link IdempotencyProblem} where the layer itself refuses the request.
   */
  async intercept(
    context: ExecutionContext,
    next: CallHandler,
    route: HttpRoute,
  ): Promise<Observable<unknown>> {
    const http = context.switchToHttp();
    const exchange = httpExchange(http.getRequest(), http.getResponse());
    const { request } = exchange;
    if (UNPROTECTED_METHODS.has(request.method) || underWay.has(request)) return next.handle();
    const { enabled } = route.options;
    if (!(typeof enabled === 'function' ? enabled(context) : enabled)) return next.handle();
    underWay.add(request);
    const claim = await httpClaim(context, exchange, route);
    if (claim === undefined) return next.handle();
    const decision = await this.engine.begin(claim);
    switch (decision.kind) {
      case 'run':
        return run(next, exchange, route, claim, decision.attempt);
      case 'replay':
        return replay(exchange, route, decision.outcome);
      case 'reject':
        return refuse(exchange, new PROBLEMS[decision.reason](route.problems));
    }
  }
}

function run(
  next: CallHandler,
  exchange: HttpExchange,
  route: HttpRoute,
  claim: Claim,
  attempt: Attempt,
): Observable<unknown> {
  if (!attempt.isProtected) exchange.setHeader(STATUS_HEADER, 'unprotected');
  const operation = new RunningOperation(contextOf(claim, attempt), true);
  const httpRun = new HttpRun(attempt, route, operation, exchange.headers());
  exchange.record(httpRun);
  const { rawResponse } = exchange;
  rawResponse.once('close', () => {
    if (!rawResponse.writableFinished) httpRun.clientLeft();
  });
  return new Observable((subscriber) => {
    // A subscription of its own, without teardown: neither an outer timeout nor a client that leaves
    // ends the handler, whose outcome is still to be stored (contract C57).
    defer(() => runningOperation.run(operation, () => next.handle())).subscribe({
      next: (value) => {
        if (value instanceof StreamableFile) {
          value.getStream().once('error', () => {
            httpRun.answerBroke();
          });
        }
        subscriber.next(value);
      },
      error: (error) => {
        httpRun.streamFailed(error);
        subscriber.error(error);
      },
      complete: () => {
        httpRun.streamCompleted(exchange.status());
        subscriber.complete();
      },
    });
  });
}

function replay(
  exchange: HttpExchange,
  { options, isNative, problems }: HttpRoute,
  outcome: Outcome,
): Observable<unknown> {
  const answer = decodeAnswer(outcome);
  if (answer === undefined) return refuse(exchange, new ResponseNotKeptProblem(problems));
  const httpReplay = new HttpReplay(markedReplay(answer, options.replayHeader), exchange.headers());
  exchange.record(httpReplay);
  // A handler with the response in its own hands would have ended it itself.
  if (isNative) exchange.end();
  return of(httpReplay.value);
}
