import {
  StreamableFile,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { from, isObservable, mergeAll, Observable, type Subscriber } from 'rxjs';
import { isThenable } from '../core/util/maybe-async.js';
import { inThisContext } from '../core/util/this-context.js';

/**
 * Calls the interceptors of a request as Nest does: the first one at once, each other when the stream of the one before is
 * subscribed to, in the async context in which that has asked for it. Without Nest's deferred and merged streams, and with
 * no stream around the last one, which makes its own.
 * @param inner - the other ones, of which the last is this library's: its stream does nothing until it is subscribed to.
 * @param next - pipes and handler, as Nest calls them.
 */
export async function callInTurn(
  outermost: NestInterceptor,
  inner: readonly NestInterceptor[],
  context: ExecutionContext,
  next: () => Promise<unknown>,
): Promise<Observable<unknown>> {
  const handler = new HandlerCall(next);
  const turns = inner.reduceRight<CallHandler>(
    (after, interceptor) => new Turn(interceptor, context, after, after === handler),
    handler,
  );
  const stream = outermost.intercept(context, turns);
  // Also what a promise gives is made a stream, or refused where it is none: Nest would send it as the handler's value.
  return from(isThenable(stream) ? await stream : stream);
}

/** An interceptor, and those after it. */
class Turn implements CallHandler {
  constructor(
    private readonly interceptor: NestInterceptor,
    private readonly context: ExecutionContext,
    private readonly after: CallHandler,
    private readonly isLast: boolean,
  ) {}

  handle(): Observable<unknown> {
    if (this.isLast) return this.call() as Observable<unknown>;
    const call = inThisContext(() => this.call());
    return new Observable((subscriber) => {
      const stream = call();
      return (isThenable(stream) ? from(stream).pipe(mergeAll()) : from(stream)).subscribe(
        subscriber,
      );
    });
  }

  private call(): ReturnType<NestInterceptor['intercept']> {
    return this.interceptor.intercept(this.context, this.after);
  }
}

/** Pipes and handler, again for each subscriber. */
class HandlerCall implements CallHandler {
  constructor(private readonly next: () => Promise<unknown>) {}

  handle(): Observable<unknown> {
    const next = inThisContext(this.next);
    return new Observable((subscriber) => {
      next().then(
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

/** An unread body: nothing else would close its file, or stop what produces it. */
function discard(value: unknown): void {
  if (value instanceof StreamableFile) value.getStream().destroy();
  const source = value instanceof Response ? value.body : value;
  if (typeof source !== 'object' || source === null || !(Symbol.asyncIterator in source)) return;
  const { destroy, cancel, return: end } = source as Record<string, unknown>;
  const stop = [destroy, cancel, end].find((method) => typeof method === 'function');
  if (stop === undefined) return;
  const stopped = new Promise((resolve) => {
    resolve(Reflect.apply(stop, source, []));
  });
  // There is no caller left for an error of it.
  stopped.catch(() => undefined);
}
