import { Readable } from 'node:stream';
import { types } from 'node:util';
import {
  StreamableFile,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import {
  finalize,
  from,
  isObservable,
  mergeAll,
  Observable,
  ReplaySubject,
  type Observer,
  type Subscriber,
  type Unsubscribable,
} from 'rxjs';
import { isThenable, whenReady } from '../core/util/maybe-async.js';
import { inThisContext } from '../core/util/this-context.js';

/**
 * Calls the interceptors of a request as Nest does: the first one at once, each other when the stream of the one before is
 * subscribed to, in the async context in which that has asked for it. Without Nest's deferred and merged streams, and with
 * no stream around the last one, which makes its own.
 * @param inner - the other ones, of which the last is this library's: its stream does nothing until it is subscribed to.
 * @param next - pipes and handler, as Nest calls them.
 * @returns the last value, as Nest would send it; or a stream where that makes a difference to Nest.
 */
export function callInTurn(
  outermost: NestInterceptor,
  inner: readonly NestInterceptor[],
  context: ExecutionContext,
  next: () => Promise<unknown>,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const result = new Result(resolve);
    const handler = new HandlerCall(next, result);
    const turns = inner.reduceRight<CallHandler>(
      (after, interceptor) => new Turn(interceptor, context, after, after === handler),
      handler,
    );
    const stream: unknown = outermost.intercept(context, turns);
    // One that an async interceptor returns.
    const following = whenReady(stream, (given) => {
      result.follow(from(given as Observable<unknown>));
    });
    following?.catch(reject);
  });
}

/**
 * Waits for the last value of the outermost stream, in place of the streams in which Nest waits for it. Nest gets a stream
 * all the same of a handler that returns one, which Nest leaves when the client does; of an error or no value, after which
 * Nest closes what the handler has returned; and of a value for which it listens, or which a promise would turn into another.
 */
class Result implements Observer<unknown> {
  private value: unknown = NONE;
  private stream: ReplaySubject<unknown> | undefined;
  private subscription: Unsubscribable | undefined;

  constructor(private readonly resolve: (result: unknown) => void) {}

  follow(stream: Observable<unknown>): void {
    this.subscription = stream.subscribe(this);
  }

  next(value: unknown): void {
    if (isPlain(value)) {
      if (this.stream === undefined) this.value = value;
      else this.stream.next(value);
    } else {
      listenForError(value);
      this.asStream().next(value);
    }
  }

  error(error: unknown): void {
    this.asStream().error(error);
  }

  complete(): void {
    if (this.stream === undefined && this.value !== NONE) this.resolve(this.value);
    else this.asStream().complete();
  }

  /** From now on, Nest waits by itself. */
  asStream(): ReplaySubject<unknown> {
    if (this.stream !== undefined) return this.stream;
    const stream = new ReplaySubject<unknown>();
    this.stream = stream;
    if (this.value !== NONE) stream.next(this.value);
    this.resolve(stream.pipe(finalize(() => this.subscription?.unsubscribe())));
    return stream;
  }
}

const NONE = Symbol('none');

/** So does Nest, but after this tick: until then, the error of a broken file would end the process. */
function listenForError(value: unknown): void {
  // A revoked one throws.
  if (!types.isProxy(value) && value instanceof Readable) value.on('error', ignore);
}

function ignore(): void {
  // What reads it gets the error, too.
}

/** Neither a stream nor a promise. */
function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'function';
  try {
    return !(isObservable(value) || isThenable(value) || Symbol.asyncIterator in value);
  } catch {
    // Of a revoked proxy: what reads the value next refuses it.
    return false;
  }
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
  constructor(
    private readonly next: () => Promise<unknown>,
    private readonly result: Result,
  ) {}

  handle(): Observable<unknown> {
    const next = inThisContext(this.next);
    return new Observable((subscriber) => {
      next().then(
        (value) => {
          if (isObservable(value)) this.result.asStream();
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
