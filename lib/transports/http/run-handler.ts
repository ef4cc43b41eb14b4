import { StreamableFile, type CallHandler } from '@nestjs/common';
import { EMPTY, from, throwError, type Observable, type Subscriber } from 'rxjs';
import { executionScope } from '../../core/operation/execution-scope.js';
import type { HttpExchange } from './http-exchange.js';
import type { HttpExecution } from './http-execution.js';
import { setProblemHeaders } from './problem.js';
import { isGone } from './response/held-close.js';

/** Runs the handler for a subscriber of its stream, again if an outer interceptor subscribes again. */
export function runHandler(
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
  const recording = exchange.record(execution);
  if (execution.isTransactional) {
    execution.onDiscard = () => {
      recording.restart();
      exchange.restoreHead(execution.statusBefore, execution.headersBefore);
    };
  }
  const onClose = () => {
    const { hasBegun } = recording;
    if (!rawResponse.writableFinished) execution.report({ kind: 'clientGone', hasBegun });
    // Its own class says so, in place of the recorder.
    else if (!hasBegun && rawResponse.headersSent) execution.onBypass(rawResponse.statusCode);
  };
  // The client disconnected before the handler started: a pipe into a closed response emits nothing.
  if (isGone(rawResponse)) execution.report({ kind: 'clientGone', hasBegun: true });
  // It closes once, and is not kept after that.
  else rawResponse.on('close', onClose);
  return true;
}

/**
 * Runs pipes and handler without a stream. The handler's own stream has ended by then: the method awaits it.
 * @returns its value; an empty stream, as Nest expects it, if a response was sent while the store was asked.
 */
export function runAlone(
  execution: HttpExecution,
  next: () => Promise<unknown>,
  exchange: HttpExchange,
): unknown {
  if (!startRecording(execution, exchange)) return EMPTY;
  const stream = execution.streamStarted();
  return executionScope.run(execution.scope, next).then(
    (value) => {
      watchSource(execution, value, exchange);
      execution.report({ kind: 'streamCompleted', stream, status: exchange.status() });
      return value;
    },
    (error: unknown) => {
      throw failureOf(execution, stream, error, exchange);
    },
  );
}

/** Subscribes to the handler's stream, and again after a transaction conflict that allows a retry. */
function subscribe(
  execution: HttpExecution,
  next: CallHandler,
  exchange: HttpExchange,
  subscriber: Subscriber<unknown>,
): void {
  const stream = execution.streamStarted();
  let hasEmitted = false;
  subscriber.add(() => {
    if (!hasEmitted) execution.report({ kind: 'streamAbandoned', stream });
  });
  const fail = (error: unknown) => {
    hasEmitted = true;
    const failure = failureOf(execution, stream, error, exchange, subscriber);
    respondInPlaceOfOthers(execution, exchange, subscriber);
    subscriber.error(failure);
  };
  // A separate subscription without teardown: an outer timeout or a disconnect must not end the handler before its
  // outcome is stored (contract C57). In the execution scope, because inner interceptors may call the handler later.
  executionScope.run(execution.scope, () =>
    streamOf(next).subscribe({
      next: (value) => {
        hasEmitted = true;
        watchSource(execution, value, exchange);
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
        respondInPlaceOfOthers(execution, exchange, subscriber);
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
  const isUnwritable = isGone(rawResponse) && isUnableToPipe(error);
  // Node 24 and later throw this at once; on earlier versions the response begins, and then fails.
  if (isUnwritable && !execution.isTransactional) rawResponse.flushHeaders();
  if (exchange.isUnfinished()) {
    // What Nest ends is no response to the error, and not the handler's whole response.
    execution.onSourceError();
    if (execution.isTransactional && !rawResponse.headersSent) endWithServerError(exchange);
  }
  if (code === undefined) return error;
  const problem = execution.problem(code);
  if (subscriber?.closed !== true) setProblemHeaders(exchange, problem);
  return problem;
}

/**
 * An outer interceptor stopped waiting while the handler's own response was held, so that its response was taken for a
 * second one. Now that the handler's was dropped, no other follows.
 */
function respondInPlaceOfOthers(
  execution: HttpExecution,
  exchange: HttpExchange,
  { closed: hasLeft }: Subscriber<unknown>,
): void {
  if (hasLeft && execution.isResponseMissing) endWithServerError(exchange);
}

/** After a rollback. No filter can respond, and the status is that of a success. */
function endWithServerError(exchange: HttpExchange): void {
  exchange.setStatus(500);
  exchange.rawResponse.end();
}

function watchSource(execution: HttpExecution, value: unknown, exchange: HttpExchange): void {
  if (!(value instanceof StreamableFile)) return;
  const source = value.getStream();
  execution.source = source;
  source.once('error', () => {
    // Before its first byte, Nest's whole response follows, as after a serializer that fails, unless the client has left.
    const isFollowed = !exchange.isUnfinished() && !isGone(exchange.rawResponse);
    if (execution.isTransactional || !isFollowed) execution.onSourceError();
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
