import { AsyncResource } from 'node:async_hooks';
import {
  StreamableFile,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { from, isObservable, mergeAll, Observable, type Subscriber } from 'rxjs';
import { isThenable } from '../core/util/maybe-async.js';

/**
 * Calls the interceptors of a request as Nest does: the first one at once, each other when the stream of the one before is
 * subscribed to, in the async context in which that has asked for it. Without Nest's deferred and merged streams, and with
 * no stream around the last one, which makes its own.
 * @param next - pipes and handler, as Nest calls them.
 */
export function callInTurn(
  interceptors: readonly NestInterceptor[],
  context: ExecutionContext,
  next: () => Promise<unknown>,
): Promise<Observable<unknown>> {
  try {
    const stream = new Turn(interceptors, 0, context, new HandlerCall(next)).call();
    return Promise.resolve(isThenable(stream) ? stream : from(stream));
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

/** An interceptor, and those after it. */
class Turn implements CallHandler {
  constructor(
    private readonly interceptors: readonly NestInterceptor[],
    private readonly index: number,
    private readonly context: ExecutionContext,
    private readonly handler: CallHandler,
  ) {}

  call(): ReturnType<NestInterceptor['intercept']> {
    const { interceptors, index, context, handler } = this;
    const isLast = index === interceptors.length - 1;
    const after = isLast ? handler : new Turn(interceptors, index + 1, context, handler);
    return interceptors[index]!.intercept(context, after);
  }

  handle(): Observable<unknown> {
    // This library's, whose stream does nothing until it is subscribed to.
    if (this.index === this.interceptors.length - 1) return this.call() as Observable<unknown>;
    const scope = new AsyncResource('IdempotencyTurn');
    return new Observable((subscriber) => {
      const stream = scope.runInAsyncScope(this.call, this);
      return (isThenable(stream) ? from(stream).pipe(mergeAll()) : from(stream)).subscribe(
        subscriber,
      );
    });
  }
}

/** Pipes and handler, again for each subscriber. */
class HandlerCall implements CallHandler {
  constructor(private readonly next: () => Promise<unknown>) {}

  handle(): Observable<unknown> {
    const scope = new AsyncResource('IdempotencyHandler');
    return new Observable((subscriber) => {
      scope.runInAsyncScope(this.next).then(
        (value) => {
          emit(value, subscriber);
        },
        (error: unknown) => {
          subscriber.error(error);
        },
      );
    });
  }
}

function emit(value: unknown, subscriber: Subscriber<unknown>): void {
  if (subscriber.closed) discard(value);
  else if (isObservable(value)) {
    value.subscribe(subscriber);
  } else {
    subscriber.next(value);
    subscriber.complete();
  }
}

/** A body that nobody will read: nothing else would close its file, or stop what produces it. */
function discard(value: unknown): void {
  if (value instanceof StreamableFile) value.getStream().destroy();
  const source = value instanceof Response ? value.body : value;
  if (typeof source !== 'object' || source === null || !(Symbol.asyncIterator in source)) return;
  const { destroy, cancel, return: end } = source as Record<string, unknown>;
  const stop = [destroy, cancel, end].find((method) => typeof method === 'function');
  // What fails to stop has nobody to tell.
  if (stop !== undefined)
    void (async () => Reflect.apply(stop, source, []))().catch(() => undefined);
}
