import { UseInterceptors } from '@nestjs/common';
import { isObservable, lastValueFrom } from 'rxjs';
import { IdempotencyOptionsError } from '../core/errors.js';
import { runningOperation, type RunningOperation } from '../core/running-operation.js';
import type { IdempotencyOptions } from './idempotency-options.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { markReportingEntry, reportsEntry, setIdempotentOptions } from './idempotent.metadata.js';
import { disguise, routeNames } from './route-methods.js';

type Method = (this: unknown, ...args: unknown[]) => unknown;

/**
 * Makes a route run once per idempotency key and answer every repetition with the first outcome, byte
 * for byte. On a class it protects all its routes; a method's options win over its class', those over
 * the module's.
 *
 * @example
 * ```ts
 * @Idempotent()
 * @Post()
 * charge(@Body() payment: PaymentDto) { … }
 * ```
 */
export function Idempotent(options: IdempotencyOptions = {}): MethodDecorator & ClassDecorator {
  return (target: object, name?: string | symbol, descriptor?: PropertyDescriptor) => {
    if (name === undefined) protectClass(target as new () => unknown, options);
    else protectMethod(target, name, descriptor, options);
  };
}

function protectMethod(
  prototype: object,
  name: string | symbol,
  descriptor: PropertyDescriptor | undefined,
  options: IdempotencyOptions,
): void {
  if (typeof descriptor?.value !== 'function') {
    throw new IdempotencyOptionsError(
      `@Idempotent() stands on ${String(name)}, which is no method. Put it on a route's method or on a controller.`,
    );
  }
  const method = reportingEntry(descriptor.value as Method);
  descriptor.value = method;
  setIdempotentOptions(method, options);
  UseInterceptors(IdempotencyInterceptor)(prototype, name, descriptor);
}

/**
 * Protects every route by itself, those aside that have a decorator of their own. The interceptor then
 * stands inside the method's other interceptors, which the answer has to pass before it is recorded.
 */
function protectClass(controller: new () => unknown, options: IdempotencyOptions): void {
  setIdempotentOptions(controller, options);
  const prototype = controller.prototype as Record<string, unknown>;
  for (const name of routeNames(prototype)) {
    const method = prototype[name] as Method;
    if (reportsEntry(method)) continue;
    const descriptor = { value: reportingEntry(method), writable: true, configurable: true };
    UseInterceptors(IdempotencyInterceptor)(prototype, name, descriptor);
    Object.defineProperty(prototype, name, descriptor);
  }
}

/**
 * Tells the running operation when the method itself is reached, and when it settles: pipes and inner
 * interceptors fail like it (contract C88), give up before it (C60c) or repeat it, inside one stream.
 */
function reportingEntry(method: Method): Method {
  const reporting: Method = function (...args) {
    const operation = runningOperation.getStore();
    // Called by other code than the route's own pipeline, it is a plain method.
    if (operation?.handler !== reporting) return method.apply(this, args);
    const { recover } = operation;
    if (recover === undefined) return entered(operation, () => method.apply(this, args));
    return operation.look(recover, (found) =>
      entered(operation, () => (found === 'run' ? method.apply(this, args) : found.value)),
    );
  };
  disguise(reporting, method);
  markReportingEntry(reporting);
  return reporting;
}

function entered(operation: RunningOperation, run: () => unknown): unknown {
  operation.enter();
  try {
    return leaving(operation, run());
  } catch (error) {
    operation.leave('threw');
    throw error;
  }
}

/**
 * What HTTP makes of an Observable, its last value, is awaited here: Nest drops an Observable when the
 * client leaves, and its outcome with it.
 */
function leaving(operation: RunningOperation, result: unknown): unknown {
  if (isObservable(result)) return leaving(operation, lastValueFrom(result));
  if (!isThenable(result)) {
    operation.leave('returned');
    return result;
  }
  return Promise.resolve(result).then(
    (value) => {
      if (isObservable(value)) return leaving(operation, value);
      operation.leave('returned');
      return value;
    },
    (error: unknown) => {
      operation.leave('threw');
      throw error;
    },
  );
}

/** Promises of other realms and lazy query builders, too: Nest awaits them all. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function';
}
