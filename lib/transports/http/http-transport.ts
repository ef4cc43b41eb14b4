import { Logger, type CallHandler, type ExecutionContext } from '@nestjs/common';
import { Observable, tap, type Subscriber } from 'rxjs';
import type { IdempotencyEngine } from '../../core/engine/idempotency-engine.js';
import { entryOf, type Entry } from '../../core/engine/run-operation.js';
import type { Services } from '../../core/operation/recovery.js';
import type { UnprotectedReason } from '../../core/record/events.js';
import type { GuardedSurrounding } from '../../core/telemetry/telemetries.js';
import { hasCode, IdempotencyOptionsError } from '../../core/errors/errors.js';
import { inThisContext } from '../../core/util/this-context.js';
import { SymbolSlot } from '../../core/util/symbol-slot.js';
import { isUnprotectedMethod } from '../common/ask-option.js';
import { misnamedKey } from '../common/misnamed-key.js';
import { httpExchange, type HttpExchange } from './http-exchange.js';
import { HttpExecution } from './http-execution.js';
import { STATUS_HEADER } from './http-options.js';
import { HttpReplay, replayOf, replayStatus, valueOf } from './http-replay.js';
import type { HttpRoute } from './http-route.js';
import { IdempotencyProblem, setProblemHeaders, throwProblem } from './problem.js';
import { readRequest } from './read-request.js';
import { isGone } from './response/held-close.js';
import type { RecordedResponse } from './response/http-response.js';
import { isOfNode } from './response/response-patch.js';
import { runAlone, runHandler } from './run-handler.js';

const logger = new Logger('Idempotency');

/** What happens with a request. A rejection is thrown instead. */
type RequestPlan = Bypass | { readonly kind: 'run'; readonly execution: HttpExecution } | Replay;

/** The operation runs without an attempt, as its options say. */
interface Bypass {
  readonly kind: 'unprotected';
  readonly reason: Exclude<UnprotectedReason, 'store_unavailable'>;
  isStarted: boolean;
}

interface Replay {
  readonly kind: 'replay';
  readonly response: RecordedResponse;
  /** Whether it is being sent. An outer interceptor may subscribe more than once. */
  isStarted: boolean;
}

/** The plan of one request, decided once for all subscriptions. */
interface PendingRequest {
  readonly plan: Promise<RequestPlan>;
  waiting: number;
}

/** Protects HTTP routes, on Express and Fastify alike. */
export class HttpTransport {
  private readonly pendingRequests = new SymbolSlot<PendingRequest>('pending-request');

  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly services: Services,
  ) {}

  /**
   * Runs the handler, or responds in its place, when the stream is subscribed to. If an outer interceptor subscribes
   * again (`retry`), the first plan stays in force. Rejections fail with an {@link IdempotencyProblem}.
   */
  intercept(context: ExecutionContext, next: CallHandler, route: HttpRoute): Observable<unknown> {
    const http = context.switchToHttp();
    const exchange = httpExchange(http.getRequest(), http.getResponse());
    if (isUnprotectedMethod(exchange.request.method)) return next.handle();
    const subscribe = (subscriber: Subscriber<unknown>) => {
      const pendingRequest =
        this.pendingRequests.get(exchange.request) ?? this.newRequest(context, exchange, route);
      pendingRequest.waiting += 1;
      pendingRequest.plan.then(
        (plan) => {
          pendingRequest.waiting -= 1;
          if (subscriber.closed) {
            if (pendingRequest.waiting === 0) this.abandon(plan, exchange);
            return;
          }
          try {
            this.execute(plan, next, exchange, route, subscriber);
          } catch (error) {
            // For example, the response cannot be recorded. Uncaught, this would be an unhandled rejection.
            this.abandon(plan, exchange);
            subscriber.error(error);
          }
        },
        (error: unknown) => {
          subscriber.error(error);
        },
      );
    };
    if (this.engine.telemetry.around === undefined) return new Observable(inThisContext(subscribe));
    const stream = new Observable(subscribe);
    return new Observable(
      inThisContext((subscriber) => {
        const surrounding = this.surroundingOf(exchange, route);
        if (surrounding === undefined) return stream.subscribe(subscriber);
        const error = endWithResponse(surrounding, exchange);
        return surrounding.run(() => stream.pipe(tap({ error })).subscribe(subscriber));
      }),
    );
  }

  isFast(context: ExecutionContext, route: HttpRoute): boolean {
    const { method } = context.getArgByIndex<{ readonly method: string }>(0);
    return isFast(route) && !isUnprotectedMethod(method);
  }

  /**
   * The same without a stream, where no other interceptor could observe or repeat it.
   * @param next - pipes and handler, as Nest calls them.
   * @returns what Nest is to send; `undefined` if the request needs a stream.
   */
  interceptAlone(
    context: ExecutionContext,
    next: () => Promise<unknown>,
    route: HttpRoute,
  ): Promise<unknown> | undefined {
    if (!isFast(route)) return undefined;
    // As Nest made it: switchToHttp() makes three functions.
    const exchange = httpExchange(context.getArgByIndex(0), context.getArgByIndex(1));
    if (isUnprotectedMethod(exchange.request.method)) return next();
    // Of another handler, which has passed the request on.
    if (this.pendingRequests.get(exchange.request) !== undefined) return undefined;
    const surrounding = this.surroundingOf(exchange, route);
    if (surrounding === undefined) return this.handleAlone(context, next, exchange, route);
    const failed = endWithResponse(surrounding, exchange);
    const handling = surrounding.run(() => this.handleAlone(context, next, exchange, route));
    handling.catch(failed);
    return handling;
  }

  private handleAlone(
    context: ExecutionContext,
    next: () => Promise<unknown>,
    exchange: HttpExchange,
    route: HttpRoute,
  ): Promise<unknown> {
    const execute = (plan: RequestPlan) => this.executeAlone(plan, next, exchange, route);
    return exchange.isPassable
      ? this.newRequest(context, exchange, route).plan.then(execute)
      : this.decide(context, exchange, route, execute);
  }

  private executeAlone(
    plan: RequestPlan,
    next: () => Promise<unknown>,
    exchange: HttpExchange,
    route: HttpRoute,
  ): unknown {
    switch (plan.kind) {
      case 'unprotected':
        this.report(plan, route);
        return next();
      case 'replay':
        return replayedValue(plan, exchange, route, true);
      case 'run':
        try {
          return runAlone(plan.execution, next, exchange);
        } catch (error) {
          // The response cannot be recorded.
          this.abandon(plan, exchange);
          throw error;
        }
    }
  }

  private surroundingOf(
    { rawResponse }: HttpExchange,
    { operation }: HttpRoute,
  ): GuardedSurrounding | undefined {
    const { telemetry } = this.engine;
    // Nothing says when a response has ended that is closed already.
    if (telemetry.around === undefined || isGone(rawResponse)) return undefined;
    return telemetry.around({ operation, transport: 'http' });
  }

  private newRequest(
    context: ExecutionContext,
    exchange: HttpExchange,
    route: HttpRoute,
  ): PendingRequest {
    const pendingRequest = {
      plan: this.decide(context, exchange, route, (plan) => plan),
      waiting: 0,
    };
    this.pendingRequests.set(exchange.request, pendingRequest);
    return pendingRequest;
  }

  /** @param execute - what happens with the plan: in the same promise, because another one costs each request. */
  private async decide<Result>(
    context: ExecutionContext,
    exchange: HttpExchange,
    route: HttpRoute,
    execute: (plan: RequestPlan) => Result,
  ): Promise<Awaited<Result>> {
    let plan: RequestPlan;
    // Caught here, because a chained catch() costs each request another promise.
    try {
      const reading = readRequest(context, exchange, route);
      const received = reading instanceof Promise ? await reading : reading;
      if (received === 'no_key') this.findMisnamedKey(exchange, route);
      if (typeof received === 'string') plan = bypass(received);
      else {
        const operationRequest = this.engine.requestOf(received);
        const decision = await this.engine.begin(operationRequest, replayStatus);
        const handler = context.getHandler();
        const entry = entryOf(decision, operationRequest, this.services, handler);
        try {
          plan = planOf(entry, exchange, route);
        } catch (error) {
          // Otherwise the key stays blocked until the hard deadline, and every shutdown waits for it.
          if (entry.kind === 'run') await entry.attempt.release();
          throw error;
        }
      }
    } catch (error) {
      this.engine.reportInvalid(route.operation, 'http', error);
      if (hasCode(error, 'idempotency_key_missing')) this.findMisnamedKey(exchange, route);
      throw errorOf(error, exchange, route);
    }
    return execute(plan) as Awaited<Result>;
  }

  /** Reports a client that sends its key under another name, and takes itself for protected. */
  private findMisnamedKey(exchange: HttpExchange, { operation, keyField }: HttpRoute): void {
    if (keyField === undefined) return;
    const header = misnamedKey(Object.keys(exchange.request.headers), keyField);
    if (header !== undefined) this.engine.reportMisnamedKey(operation, 'http', header);
  }

  private execute(
    plan: RequestPlan,
    next: CallHandler,
    exchange: HttpExchange,
    route: HttpRoute,
    subscriber: Subscriber<unknown>,
  ): void {
    switch (plan.kind) {
      case 'unprotected':
        this.report(plan, route);
        next.handle().subscribe(subscriber);
        return;
      case 'replay':
        subscriber.next(replayedValue(plan, exchange, route, route.isOutermost()));
        subscriber.complete();
        return;
      case 'run':
        runHandler(plan.execution, next, exchange, subscriber);
    }
  }

  /** Once for a request, however often an outer interceptor subscribes. */
  private report(plan: Bypass, { operation }: HttpRoute): void {
    if (plan.isStarted) return;
    plan.isStarted = true;
    this.engine.reportUnprotected(operation, 'http', plan.reason);
  }

  /** Releases an execution that has not started: an outer timeout may have responded while the store was asked. */
  private abandon(plan: RequestPlan, { request }: HttpExchange): void {
    if (plan.kind !== 'run' || plan.execution.isStarted) return;
    this.pendingRequests.set(request, undefined);
    plan.execution.report({ kind: 'notCalled' });
  }
}

function isFast({ options: { http, transaction } }: HttpRoute): boolean {
  // A conflict with another transaction runs the handler again.
  return http.fastPath && transaction === false;
}

function bypass(reason: Bypass['reason']): Bypass {
  return { kind: 'unprotected', reason, isStarted: false };
}

/** @returns a function to call with the error of the handling. */
function endWithResponse(
  surrounding: GuardedSurrounding,
  { rawResponse }: HttpExchange,
): (error: unknown) => void {
  let failure: unknown;
  let hasEnded = false;
  const end = () => {
    if (hasEnded) return;
    hasEnded = true;
    surrounding.ended(failure);
  };
  rawResponse.once('close', end);
  // Below an adapter of a serverless platform it finishes, and never closes.
  if (!isOfNode(rawResponse.socket)) rawResponse.once('finish', end);
  return (error) => {
    failure = error;
  };
}

function planOf(entry: Entry, exchange: HttpExchange, route: HttpRoute): RequestPlan {
  if (entry.kind === 'run') {
    const { attempt, scope } = entry;
    // A response sent while the store was asked already has its header fields.
    if (!attempt.isProtected && !exchange.rawResponse.headersSent) {
      exchange.setHeader(STATUS_HEADER, 'unprotected');
    }
    const headers = exchange.headers();
    const execution = new HttpExecution(attempt, route, scope, headers, exchange.status());
    return { kind: 'run', execution };
  }
  const response = replayOf(entry, route);
  if (typeof response === 'string') return throwProblem(exchange, response, route.problems);
  return { kind: 'replay', response, isStarted: false };
}

/** The error that a request fails with. An invalid option is described in the log, not in the response. */
function errorOf(error: unknown, exchange: HttpExchange, route: HttpRoute): unknown {
  if (!(error instanceof IdempotencyOptionsError)) return error;
  const { operation, problems } = route;
  const { message, stack } = error;
  logger.error(message.includes(operation) ? message : `${operation}: ${message}`, stack);
  const problem = IdempotencyProblem.of('idempotency_options_invalid', problems);
  setProblemHeaders(exchange, problem);
  return problem;
}

/** Prepares the replay. @returns the value that it replaces: none if only Nest would see it. */
function replayedValue(
  replay: Replay,
  exchange: HttpExchange,
  route: HttpRoute,
  isOutermost: boolean,
): unknown {
  const { response } = replay;
  if (!replay.isStarted) {
    replay.isStarted = true;
    const { rendition, options } = route;
    const isPlain = rendition === 'body' && isOutermost && response.large === undefined;
    const sent = isPlain ? exchange.sendInstead(response) : undefined;
    if (sent !== undefined) return sent.value;
    exchange.record(new HttpReplay(response, options.http.replayHeader, exchange.headers()));
    // Fastify selects the schema of the value by the status.
    exchange.setStatus(response.status);
    if (rendition === 'page') exchange.endInsteadOfRendering();
    // A native handler would have ended the response itself.
    if (rendition === 'nothing') exchange.end();
  }
  return valueOf(response);
}
