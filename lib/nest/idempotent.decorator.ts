import { UseInterceptors } from '@nestjs/common';
import { IdempotencyOptionsError } from '../core/errors/errors.js';
import { readClass } from './discovery/handler-facts.js';
import { disguise, enter, operationOf, type Method } from './discovery/handler-report.js';
import { markReportingEntry, setIdempotentOptions } from './discovery/idempotent.metadata.js';
import { checkCalled, METHOD_RUNNER } from './discovery/instances.js';
import { isHandler } from './discovery/nest-metadata.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { runMethodOnce, injectMethodRunner } from './idempotent-methods.js';
import type { IdempotentMethodDecorator, IdempotentMethodOptions } from './options/call-options.js';
import type { IdempotencyOptions } from './options/idempotency-options.js';

/**
 * Makes a handler run once per idempotency key and replay its first outcome to every retry: a route byte for byte, a
 * message handler with equal values. On a class, it protects all handlers. A method's options override its class', and
 * those the module's.
 * @example
 * ```ts
 * @Idempotent()
 * @Post()
 * charge(@Body() payment: PaymentDto) { … }
 * ```
 */
export function Idempotent(options?: IdempotencyOptions): MethodDecorator & ClassDecorator;
/**
 * Makes a method that is not a handler run once per key and return its first value to every retry: a service's method,
 * a job's processor, a scheduled task. Nest has to create the instance, in a module that sees `IdempotencyModule`.
 * Throws as {@link IdempotencyService.run} does.
 * @example
 * ```ts
 * @Idempotent({ operation: 'invoice.send', key: (invoice: Invoice) => invoice.id })
 * async send(invoice: Invoice): Promise<Receipt> { … }
 * ```
 */
export function Idempotent<Args extends readonly unknown[], Fallback = never>(
  options: IdempotentMethodOptions<Args, Fallback>,
): IdempotentMethodDecorator<Args, Fallback>;
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
      `@Idempotent() was applied to ${String(name)}, which is not a method. Put it on a route's method or on a controller.`,
    );
  }
  if (typeof prototype === 'function') {
    throw new IdempotencyOptionsError(
      `@Idempotent() was applied to ${String(name)}, which is static and has no instance. Put it on an instance method.`,
    );
  }
  const method = reportingEntry(descriptor.value as Method, prototype, name);
  descriptor.value = method;
  setIdempotentOptions(method, options);
  UseInterceptors(IdempotencyInterceptor)(prototype, name, descriptor);
  // Whether the method is a handler is known once all decorators are applied.
  injectMethodRunner(prototype);
}

/**
 * Protects every route of the class that has no `@Idempotent()`. The interceptor then runs inside method-level
 * interceptors.
 */
function protectClass(controller: new () => unknown, options: IdempotencyOptions): void {
  setIdempotentOptions(controller, options);
  const prototype = controller.prototype as Record<string, unknown>;
  for (const { property, handler, kinds, reports, isProtected } of readClass(controller).methods) {
    if (kinds.length === 0 || reports || !isProtected) continue;
    const entry = reportingEntry(handler as Method, prototype, property);
    const descriptor = { value: entry, writable: true, configurable: true };
    UseInterceptors(IdempotencyInterceptor)(prototype, property, descriptor);
    Object.defineProperty(prototype, property, descriptor);
    injectMethodRunner(prototype);
  }
}

/**
 * Reports when the method itself is entered and when it settles. Pipes and inner interceptors fail in the same stream
 * (contract C88), give up earlier (C60c) or call the method again.
 */
function reportingEntry(method: Method, prototype: object, name: string | symbol): Method {
  const reporting: Method = function (...args) {
    const run = () => method.apply(this, args);
    if (!isDecorated(this)) checkCalled(this, name, reporting);
    const operation = operationOf(reporting);
    if (operation === undefined) {
      // Called from outside its own pipeline, a handler is a plain method.
      return isDeclared(reporting, prototype, name)
        ? run()
        : runMethodOnce(this, reporting, args, run);
    }
    return operation.start((found) => enter(operation, found === 'run' ? run : () => found.value));
  };
  // By the property: a wrapper of another decorator may have another name, or none.
  disguise(reporting, method, typeof name === 'string' ? name : method.name);
  markReportingEntry(reporting, prototype, name);
  return reporting;
}

/** Whether the decorator was applied to the instance's class: such an instance is checked when it is injected. */
function isDecorated(instance: unknown): boolean {
  return typeof instance === 'object' && instance !== null && METHOD_RUNNER in instance;
}

/** Whether the method, or the wrapper in its place, is declared as a handler. */
function isDeclared(entry: Method, prototype: object, name: string | symbol): boolean {
  const declared = (prototype as Record<string | symbol, Method>)[name];
  return isHandler(entry) || (declared !== undefined && isHandler(declared));
}
