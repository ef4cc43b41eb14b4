import { Logger, StreamableFile, type CallHandler, type ExecutionContext } from '@nestjs/common';
import { from, Observable, throwError, type Subscriber } from 'rxjs';
import type { IdempotencyEngine } from '../../core/engine/idempotency-engine.js';
import type { Attempt } from '../../core/operation/attempt.js';
import { contextOf, ExecutionScope, executionScope } from '../../core/operation/execution-scope.js';
import type { OperationRequest } from '../../core/operation/operation-request.js';
import { recoveryOf, type Services } from '../../core/operation/recovery.js';
import type { RejectionReason } from '../../core/record/events.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { isEnabled } from '../common/request-options.js';
import { httpExchange, type HttpExchange } from './http-exchange.js';
import { HttpExecution } from './http-execution.js';
import { STATUS_HEADER } from './http-options.js';
import { HttpReplay, markedReplay } from './http-replay.js';
import { isUnprotectedMethod, type HttpRoute } from './http-route.js';
import {
  InProgressProblem,
  KeyReusedProblem,
  MisconfiguredProblem,
  OutcomeUnknownProblem,
  throwProblem,
  ResponseNotKeptProblem,
  setProblemHeaders,
  ShuttingDownProblem,
  StoreUnavailableProblem,
  type IdempotencyProblem,
  type ProblemContext,
} from './problem.js';
import { readRequest } from './read-request.js';
import { decodeResponse } from './response/http-response.js';

const PROBLEMS: Record<RejectionReason, new (context: ProblemContext) => IdempotencyProblem> = {
  mismatch: KeyReusedProblem,
  in_progress: InProgressProblem,
  outcome_unknown: OutcomeUnknownProblem,
  store_unavailable: StoreUnavailableProblem,
  shutting_down: ShuttingDownProblem,
};

const logger = new Logger('Idempotency');

/** What becomes of a request; a refusal is thrown. */
type RequestPlan =
  | { readonly kind: 'unprotected' }
  | { readonly kind: 'run'; readonly execution: HttpExecution }
  | { readonly kind: 'replay'; readonly replay: HttpReplay };

/** A request whose course is decided, or about to be: once, however often it is subscribed to. */
interface PendingRequest {
  readonly plan: Promise<RequestPlan>;
  /** Subscribers that have not been told yet. */
  waiting: number;
}

/** Protects HTTP routes, on Express and Fastify alike. */
export class HttpTransport {
  private readonly pendingRequests = placeOn<PendingRequest>();

  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly services: Services,
  ) {}

  /**
   * Runs the handler, or answers in its place. Nothing is begun before the stream is subscribed to, and
   * what an outer interceptor repeats (`retry`) stays within the course that was decided first.
   *
   * The stream fails with an {@link IdempotencyProblem} where the layer itself refuses the request.
   */
  intercept(context: ExecutionContext, next: CallHandler, route: HttpRoute): Observable<unknown> {
    const http = context.switchToHttp();
    const exchange = httpExchange(http.getRequest(), http.getResponse());
    if (isUnprotectedMethod(exchange.request.method)) return next.handle();
    return new Observable((subscriber) => {
      const pendingRequest = this.pendingRequest(context, exchange, route);
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
            // A response that cannot be recorded, say: nobody else would hear of it.
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

  private pendingRequest(
    context: ExecutionContext,
    exchange: HttpExchange,
    route: HttpRoute,
  ): PendingRequest {
    const known = this.pendingRequests.get(exchange.request);
    if (known !== undefined) return known;
    const pendingRequest = { plan: this.decide(context, exchange, route), waiting: 0 };
    this.pendingRequests.set(exchange.request, pendingRequest);
    return pendingRequest;
  }

  private async decide(
    context: ExecutionContext,
    exchange: HttpExchange,
    route: HttpRoute,
  ): Promise<RequestPlan> {
    // Caught here: in a chain behind it each request would have one promise more.
    try {
      if (!isEnabled(context, route.operation, route.options)) return { kind: 'unprotected' };
      // What middleware or `@Header()` has set would mark refusals, too.
      if (!exchange.rawResponse.headersSent) exchange.removeHeader(route.options.replayHeader);
      const prepared = readRequest(context, exchange, route);
      const operationRequest = prepared instanceof Promise ? await prepared : prepared;
      if (operationRequest === undefined) return { kind: 'unprotected' };
      const decision = await this.engine.begin(operationRequest);
      switch (decision.kind) {
        case 'run': {
          const { attempt } = decision;
          try {
            return {
              kind: 'run',
              execution: this.executionOf(context, exchange, route, operationRequest, attempt),
            };
          } catch (error) {
            // Nobody else would end it: its key would be blocked until the hard deadline, and every shutdown wait.
            await attempt.release();
            throw error;
          }
        }
        case 'replay': {
          const response = decodeResponse(decision.outcome);
          if (response === undefined) {
            return throwProblem(exchange, new ResponseNotKeptProblem(route.problems));
          }
          const { replayHeader } = route.options;
          const marked = markedReplay(response, replayHeader);
          return {
            kind: 'replay',
            replay: new HttpReplay(marked, replayHeader, exchange.headers()),
          };
        }
        case 'reject':
          return throwProblem(exchange, new PROBLEMS[decision.reason](route.problems));
      }
    } catch (error) {
      throw errorOf(error, exchange, route);
    }
  }

  private executionOf(
    context: ExecutionContext,
    exchange: HttpExchange,
    route: HttpRoute,
    operationRequest: OperationRequest,
    attempt: Attempt,
  ): HttpExecution {
    // Whoever has answered while the store was asked has sent the header fields, too.
    if (!attempt.isProtected && !exchange.rawResponse.headersSent) {
      exchange.setHeader(STATUS_HEADER, 'unprotected');
    }
    const own = contextOf(operationRequest, attempt);
    const recover = recoveryOf(operationRequest.options.onTakeover, attempt, own, this.services);
    const operation = new ExecutionScope(own, context.getHandler(), recover, attempt.transaction);
    return new HttpExecution(attempt, route, operation, exchange.headers(), exchange.status());
  }

  /** An outer timeout may have answered while the store was asked: a handler not yet called is not called. */
  private abandon(plan: RequestPlan, { request }: HttpExchange): void {
    if (plan.kind !== 'run' || plan.execution.isStarted) return;
    this.pendingRequests.set(request, undefined);
    void plan.execution.abandon();
  }
}

/** What a request fails of: where an option of its operation is at fault, the log says more than the answer. */
function errorOf(error: unknown, exchange: HttpExchange, route: HttpRoute): unknown {
  if (!(error instanceof IdempotencyOptionsError)) return error;
  const { operation, problems } = route;
  const { message, stack } = error;
  logger.error(message.includes(operation) ? message : `${operation}: ${message}`, stack);
  const problem = new MisconfiguredProblem(problems);
  setProblemHeaders(exchange, problem);
  return problem;
}

function executePlan(
  plan: RequestPlan,
  next: CallHandler,
  exchange: HttpExchange,
  { rendition }: HttpRoute,
  subscriber: Subscriber<unknown>,
): void {
  switch (plan.kind) {
    case 'unprotected':
      next.handle().subscribe(subscriber);
      return;
    case 'replay': {
      const { replay } = plan;
      if (!replay.isStarted) {
        replay.isStarted = true;
        exchange.record(replay);
        // By it Fastify chooses the schema that the value has to fit.
        exchange.setStatus(replay.status);
        if (rendition === 'page') exchange.endInsteadOfRendering();
        // A handler with the response in its own hands would have ended it itself.
        if (rendition === 'nothing') exchange.end();
      }
      subscriber.next(replay.value);
      subscriber.complete();
      return;
    }
    case 'run':
      runHandler(plan.execution, next, exchange, subscriber);
  }
}

function runHandler(
  execution: HttpExecution,
  next: CallHandler,
  exchange: HttpExchange,
  subscriber: Subscriber<unknown>,
): void {
  const { rawResponse } = exchange;
  if (!execution.isStarted) {
    if (rawResponse.headersSent) {
      // Somebody has answered while the store was asked, and nobody would see what the handler says.
      void execution.abandon();
      subscriber.complete();
      return;
    }
    const written = exchange.record(execution);
    const onClose = () => {
      if (!rawResponse.writableFinished) execution.clientDisconnected(written());
    };
    // Gone before the handler started: a pipe into a closed response never says another word.
    if (rawResponse.destroyed) execution.clientDisconnected(true);
    else rawResponse.once('close', onClose);
  } else if (execution.isTransactional) {
    // An outer interceptor retries: what the run before has written is not to be part of this one.
    void execution.startOver().then((mayRun) => {
      exchange.restoreHead(execution.statusBefore, execution.headersBefore);
      if (mayRun && !subscriber.closed) {
        subscribe(execution, next, exchange, subscriber);
        return;
      }
      const problem = execution.unavailable();
      setProblemHeaders(exchange, problem);
      subscriber.error(problem);
    });
    return;
  }
  subscribe(execution, next, exchange, subscriber);
}

/** Subscribes to the handler's stream: again, after a conflict of its transaction that allows it. */
function subscribe(
  execution: HttpExecution,
  next: CallHandler,
  exchange: HttpExchange,
  subscriber: Subscriber<unknown>,
): void {
  const stream = execution.streamStarted();
  let hasEmitted = false;
  subscriber.add(() => {
    if (!hasEmitted) execution.streamAbandoned(stream);
  });
  const { operation } = execution;
  const fail = (error: unknown) => {
    execution.streamFailed(stream, error);
    const problem = execution.problemOf(error);
    if (problem !== undefined) setProblemHeaders(exchange, problem);
    subscriber.error(problem ?? error);
  };
  // A subscription of its own, without teardown: neither an outer timeout nor a client that leaves ends
  // the handler, whose outcome is still to be stored (contract C57). Inside of the operation's context,
  // for inner interceptors may call the handler as late as they like.
  executionScope.run(operation, () =>
    streamOf(next).subscribe({
      next: (value) => {
        hasEmitted = true;
        if (value instanceof StreamableFile) {
          value.getStream().once('error', () => {
            execution.onSourceError();
          });
        }
        subscriber.next(value);
      },
      error: (error) => {
        if (!execution.isConflict(error)) {
          hasEmitted = true;
          fail(error);
          return;
        }
        execution.conflicted();
        void execution.mayRunAgain().then((mayRun) => {
          hasEmitted = true;
          if (!mayRun || subscriber.closed) {
            fail(error);
            return;
          }
          exchange.restoreHead(execution.statusBefore, execution.headersBefore);
          subscribe(execution, next, exchange, subscriber);
        });
      },
      complete: () => {
        hasEmitted = true;
        execution.streamCompleted(stream, exchange.status());
        subscriber.complete();
      },
    }),
  );
}

/** What a handler says, also where whoever stands in for it throws instead, or gives a promise. */
function streamOf(next: CallHandler): Observable<unknown> {
  try {
    return from(next.handle());
  } catch (error) {
    return throwError(() => error);
  }
}

/** A value kept for an object, for as long as the object lives. */
export interface PlaceOn<Value> {
  get(object: object): Value | undefined;
  set(object: object, value: Value | undefined): void;
}

/** A class that makes of an object itself its instance. */
const Itself = function (object: object) {
  return object;
} as unknown as new (object: object) => object;

/**
 * A place for a value on any object: a private field, which nobody else can see, copy, inherit or be in the way of. It
 * does what a `WeakMap` does, of which each key costs the garbage collector work: 4 % of a request. Those that take no
 * new fields have one: ECMAScript is about to refuse private ones there, too (proposal "nonextensible applies to private").
 */
export function placeOn<Value>(): PlaceOn<Value> {
  const closed = new WeakMap<object, Value | undefined>();

  return class Place extends Itself {
    #value: Value | undefined;

    static get(object: object): Value | undefined {
      return #value in object ? object.#value : closed.get(object);
    }

    static set(object: object, value: Value | undefined): void {
      if (#value in object) {
        object.#value = value;
      } else if (Object.isExtensible(object)) {
        new Place(object);
        (object as Place).#value = value;
      } else {
        closed.set(object, value);
      }
    }
  };
}
