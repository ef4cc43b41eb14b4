import { Logger, StreamableFile, type CallHandler, type ExecutionContext } from '@nestjs/common';
import { EMPTY, from, isObservable, Observable, throwError, type Subscriber } from 'rxjs';
import type { IdempotencyEngine } from '../../core/engine/idempotency-engine.js';
import { entryOf, type Entry } from '../../core/engine/run-operation.js';
import { executionScope } from '../../core/operation/execution-scope.js';
import type { Services } from '../../core/operation/recovery.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { SymbolSlot } from '../../core/util/symbol-slot.js';
import { isEnabled, isUnprotectedMethod } from '../common/ask-option.js';
import { httpExchange, type HttpExchange } from './http-exchange.js';
import { HttpExecution } from './http-execution.js';
import { STATUS_HEADER } from './http-options.js';
import { HttpReplay, replayOf, valueOf } from './http-replay.js';
import type { HttpRoute } from './http-route.js';
import { IdempotencyProblem, setProblemHeaders, throwProblem } from './problem.js';
import { readRequest } from './read-request.js';
import type { RecordedResponse } from './response/http-response.js';

const logger = new Logger('Idempotency');

/** What happens with a request. A rejection is thrown instead. */
type RequestPlan =
  | { readonly kind: 'unprotected' }
  | { readonly kind: 'run'; readonly execution: HttpExecution }
  | Replay;

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
    return new Observable((subscriber) => {
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
            executePlan(plan, next, exchange, route, subscriber);
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
    });
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
    const { http, transaction } = route.options;
    // A conflict with another transaction runs the handler again.
    if (!http.fastPath || transaction !== false) return undefined;
    const host = context.switchToHttp();
    const exchange = httpExchange(host.getRequest(), host.getResponse());
    if (isUnprotectedMethod(exchange.request.method)) return next();
    // Of another handler, which has passed the request on.
    if (this.pendingRequests.get(exchange.request) !== undefined) return undefined;
    // Only a native handler can pass the request on.
    const plan = route.isNative
      ? this.newRequest(context, exchange, route).plan
      : this.decide(context, exchange, route);
    return this.executeAlone(plan, next, exchange, route);
  }

  private async executeAlone(
    deciding: Promise<RequestPlan>,
    next: () => Promise<unknown>,
    exchange: HttpExchange,
    route: HttpRoute,
  ): Promise<unknown> {
    const plan = await deciding;
    switch (plan.kind) {
      case 'unprotected':
        return next();
      case 'replay':
        return replayedValue(plan, exchange, route, true);
      case 'run': {
        const { execution } = plan;
        let isRecorded: boolean;
        try {
          isRecorded = startRecording(execution, exchange);
        } catch (error) {
          this.abandon(plan, exchange);
          throw error;
        }
        return isRecorded ? callHandler(execution, next, exchange) : EMPTY;
      }
    }
  }

  private newRequest(
    context: ExecutionContext,
    exchange: HttpExchange,
    route: HttpRoute,
  ): PendingRequest {
    const pendingRequest = { plan: this.decide(context, exchange, route), waiting: 0 };
    this.pendingRequests.set(exchange.request, pendingRequest);
    return pendingRequest;
  }

  private async decide(
    context: ExecutionContext,
    exchange: HttpExchange,
    route: HttpRoute,
  ): Promise<RequestPlan> {
    // Caught here, because a chained catch() costs each request another promise.
    try {
      if (!isEnabled(context, route.operation, route.options)) return { kind: 'unprotected' };
      // A marker set by middleware or `@Header()` would also mark rejections.
      if (!exchange.rawResponse.headersSent) exchange.removeHeader(route.options.http.replayHeader);
      const prepared = readRequest(context, exchange, route);
      const operationRequest = prepared instanceof Promise ? await prepared : prepared;
      if (operationRequest === undefined) return { kind: 'unprotected' };
      const decision = await this.engine.begin(operationRequest);
      const handler = context.getHandler();
      const entry = entryOf(decision, operationRequest, this.services, handler);
      if (entry.kind === 'run') {
        try {
          return { kind: 'run', execution: executionOf(entry, exchange, route) };
        } catch (error) {
          // Otherwise the key stays blocked until the hard deadline, and every shutdown waits for it.
          await entry.attempt.release();
          throw error;
        }
      }
      const response = replayOf(entry, route);
      if (typeof response === 'string') return throwProblem(exchange, response, route.problems);
      return { kind: 'replay', response, isStarted: false };
    } catch (error) {
      throw errorOf(error, exchange, route);
    }
  }

  /** Releases an execution that has not started: an outer timeout may have responded while the store was asked. */
  private abandon(plan: RequestPlan, { request }: HttpExchange): void {
    if (plan.kind !== 'run' || plan.execution.isStarted) return;
    this.pendingRequests.set(request, undefined);
    plan.execution.report({ kind: 'notCalled' });
  }
}

function executionOf(
  { attempt, scope }: Extract<Entry, { kind: 'run' }>,
  exchange: HttpExchange,
  route: HttpRoute,
): HttpExecution {
  // A response sent while the store was asked already has its header fields.
  if (!attempt.isProtected && !exchange.rawResponse.headersSent) {
    exchange.setHeader(STATUS_HEADER, 'unprotected');
  }
  return new HttpExecution(attempt, route, scope, exchange.headers(), exchange.status());
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

function executePlan(
  plan: RequestPlan,
  next: CallHandler,
  exchange: HttpExchange,
  route: HttpRoute,
  subscriber: Subscriber<unknown>,
): void {
  switch (plan.kind) {
    case 'unprotected':
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
    const sent = rendition === 'body' && isOutermost ? exchange.sendInstead(response) : undefined;
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

function runHandler(
  execution: HttpExecution,
  next: CallHandler,
  exchange: HttpExchange,
  subscriber: Subscriber<unknown>,
): void {
  if (!execution.isStarted) {
    if (!startRecording(execution, exchange)) {
      subscriber.complete();
      return;
    }
  } else if (execution.isTransactional || execution.isSettled) {
    // An outer interceptor retries: the writes of the last run must not become part of this one, and after a late end
    // the key is no longer held.
    const stream = execution.streamStarted();
    const problem = execution.problem('idempotency_store_unavailable');
    const fail = () => {
      execution.report({ kind: 'streamFailed', stream, error: problem, isRetryable: true });
    };
    // It may leave before the handler starts. What it reports after that counts no more.
    subscriber.add(fail);
    void execution.startOver().then((mayRun) => {
      // The response is a later subscription's, or the outer interceptor's own.
      if (subscriber.closed) return;
      if (!exchange.rawResponse.headersSent)
        exchange.restoreHead(execution.statusBefore, execution.headersBefore);
      if (mayRun) {
        subscribe(execution, next, exchange, subscriber);
        return;
      }
      fail();
      setProblemHeaders(exchange, problem);
      subscriber.error(problem);
    });
    return;
  }
  subscribe(execution, next, exchange, subscriber);
}

/** Before the handler's first run. @returns false if a response was sent while the store was asked. */
function startRecording(execution: HttpExecution, exchange: HttpExchange): boolean {
  const { rawResponse } = exchange;
  if (rawResponse.headersSent) {
    // The handler's would be lost.
    execution.report({ kind: 'notCalled' });
    return false;
  }
  const written = exchange.record(execution);
  const onClose = () => {
    const hasBegun = written();
    if (!rawResponse.writableFinished) execution.report({ kind: 'clientGone', hasBegun });
    // Its own class says so, in place of the recorder.
    else if (!hasBegun && rawResponse.headersSent) execution.onBypass(rawResponse.statusCode);
  };
  // The client disconnected before the handler started: a pipe into a closed response emits nothing.
  if (rawResponse.destroyed) execution.report({ kind: 'clientGone', hasBegun: true });
  // It closes once, and is not kept after that.
  else rawResponse.on('close', onClose);
  return true;
}

/** Runs pipes and handler without a stream, unless the handler returns one. */
async function callHandler(
  execution: HttpExecution,
  next: () => Promise<unknown>,
  exchange: HttpExchange,
): Promise<unknown> {
  const stream = execution.streamStarted();
  let value: unknown;
  try {
    value = await executionScope.run(execution.scope, next);
  } catch (error) {
    throw failureOf(execution, stream, error, exchange);
  }
  if (isObservable(value)) {
    const next = { handle: () => value };
    return new Observable((subscriber) => {
      subscribe(execution, next, exchange, subscriber, stream);
    });
  }
  watchSource(execution, value);
  execution.report({ kind: 'streamCompleted', stream, status: exchange.status() });
  return value;
}

/** Subscribes to the handler's stream, and again after a transaction conflict that allows a retry. */
function subscribe(
  execution: HttpExecution,
  next: CallHandler,
  exchange: HttpExchange,
  subscriber: Subscriber<unknown>,
  stream = execution.streamStarted(),
): void {
  let hasEmitted = false;
  subscriber.add(() => {
    if (!hasEmitted) execution.report({ kind: 'streamAbandoned', stream });
  });
  const fail = (error: unknown) => {
    hasEmitted = true;
    subscriber.error(failureOf(execution, stream, error, exchange, subscriber));
  };
  // A separate subscription without teardown: an outer timeout or a disconnect must not end the handler before its
  // outcome is stored (contract C57). In the execution scope, because inner interceptors may call the handler later.
  executionScope.run(execution.scope, () =>
    streamOf(next).subscribe({
      next: (value) => {
        hasEmitted = true;
        watchSource(execution, value);
        subscriber.next(value);
      },
      error: (error) => {
        const again = execution.mayRunAgain(error);
        if (again === false) {
          fail(error);
          return;
        }
        void again.then((mayRun) => {
          if (!mayRun || subscriber.closed) {
            fail(error);
            return;
          }
          hasEmitted = true;
          exchange.restoreHead(execution.statusBefore, execution.headersBefore);
          subscribe(execution, next, exchange, subscriber);
        });
      },
      complete: () => {
        hasEmitted = true;
        execution.report({ kind: 'streamCompleted', stream, status: exchange.status() });
        subscriber.complete();
      },
    }),
  );
}

/** @returns the error to pass on, or the problem that replaces it. */
function failureOf(
  execution: HttpExecution,
  stream: number,
  error: unknown,
  exchange: HttpExchange,
  subscriber?: Subscriber<unknown>,
): unknown {
  const code = execution.streamFailed(stream, error);
  const { rawResponse } = exchange;
  const isUnwritable = rawResponse.destroyed && isUnableToPipe(error);
  // Node 24 and later throw this at once; on earlier versions the response begins, and then fails.
  if (isUnwritable && execution.isNative) rawResponse.flushHeaders();
  // What Nest ends is no response to the error, and not the handler's whole response.
  if (exchange.isUnfinished()) execution.onSourceError();
  if (code === undefined) return error;
  const problem = execution.problem(code);
  if (subscriber?.closed !== true) setProblemHeaders(exchange, problem);
  return problem;
}

function watchSource(execution: HttpExecution, value: unknown): void {
  if (!(value instanceof StreamableFile)) return;
  value.getStream().once('error', () => {
    execution.onSourceError();
  });
}

function isUnableToPipe(error: unknown): boolean {
  return (error as { code?: unknown } | undefined | null)?.code === 'ERR_STREAM_UNABLE_TO_PIPE';
}

/** The handler's stream, also if a custom `CallHandler` throws or returns a promise. */
function streamOf(next: CallHandler): Observable<unknown> {
  try {
    return from(next.handle());
  } catch (error) {
    return throwError(() => error);
  }
}
