import { UseInterceptors } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import { isObservable, lastValueFrom } from 'rxjs';
import { IdempotencyOptionsError } from '../core/errors.js';
import { runningOperation, type RunningOperation } from '../core/idempotency-context.js';
import type { IdempotencyOptions } from './idempotency-options.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { markReportingEntry, setIdempotentOptions } from './idempotent.metadata.js';

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
  descriptor.value = reportingEntry(descriptor.value as Method);
  setIdempotentOptions(descriptor.value as Method, options);
  UseInterceptors(IdempotencyInterceptor)(prototype, name, descriptor);
}

function protectClass(controller: new () => unknown, options: IdempotencyOptions): void {
  setIdempotentOptions(controller, options);
  UseInterceptors(IdempotencyInterceptor)(controller);
  const prototype = controller.prototype as Record<string, unknown>;
  for (const name of routeNames(prototype)) {
    const value = reportingEntry(prototype[name] as Method);
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  }
}

/** Names of the methods that are routes, those of base classes included. */
function routeNames(prototype: object): Set<string> {
  const names = new Set<string>();
  for (
    let level: object | null = prototype;
    level !== null && level !== Object.prototype;
    level = Object.getPrototypeOf(level) as object | null
  ) {
    for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(level))) {
      const value: unknown = descriptor.value;
      if (typeof value === 'function' && Reflect.hasMetadata(METHOD_METADATA, value)) {
        names.add(name);
      }
    }
  }
  return names;
}

/**
 * Tells the running operation when the method itself is reached, and when it settles: pipes and inner
 * interceptors fail like it (contract C88), or give up before it (C60c), inside the same stream.
 */
function reportingEntry(method: Method): Method {
  const entered: Method = function (...args) {
    const operation = runningOperation.getStore();
    // A protected method called by another one is a plain call.
    if (operation?.progress !== 'not_entered') return method.apply(this, args);
    operation.progress = 'running';
    try {
      return settling(operation, method.apply(this, args));
    } catch (error) {
      operation.settle('threw');
      throw error;
    }
  };
  for (const key of Reflect.getOwnMetadataKeys(method) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), entered);
  }
  markReportingEntry(entered);
  return Object.defineProperties(entered, {
    name: { value: method.name, configurable: true },
    length: { value: method.length, configurable: true },
  });
}

/**
 * What HTTP makes of an Observable, its last value, is awaited here: Nest drops an Observable when the
 * client leaves, and its outcome with it.
 */
function settling(operation: RunningOperation, result: unknown): unknown {
  if (isObservable(result) && operation.lastValueOnly) {
    return settling(operation, lastValueFrom(result));
  }
  if (!(result instanceof Promise)) {
    operation.settle('returned');
    return result;
  }
  return result.then(
    (value: unknown) => {
      if (isObservable(value) && operation.lastValueOnly) return settling(operation, value);
      operation.settle('returned');
      return value;
    },
    (error: unknown) => {
      operation.settle('threw');
      throw error;
    },
  );
}
