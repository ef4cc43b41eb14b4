import { UseInterceptors } from '@nestjs/common';
import { IdempotencyOptionsError } from '../core/util/errors.js';
import { disguise, handlerNames, isHandler, isMeantByClass } from './discovery/handler-kinds.js';
import { enter, operationOf, type Method } from './discovery/handler-report.js';
import {
  markReportingEntry,
  reportsEntry,
  setIdempotentOptions,
} from './discovery/idempotent.metadata.js';
import { checkCalled } from './discovery/wrapped-handlers.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { runMethodOnce, injectMethodRunner } from './idempotent-methods.js';
import type { IdempotentMethodDecorator, IdempotentMethodOptions } from './options/call-options.js';
import type { IdempotencyOptions } from './options/idempotency-options.js';

/**
 * Makes a handler run once per idempotency key and answer every repetition with the first outcome: a route to the byte, a
 * message handler with the same values. On a class it protects all its handlers; a method's options win over its class',
 * those over the module's.
 *
 * @example
 * ```ts
 * @Idempotent()
 * @Post()
 * charge(@Body() payment: PaymentDto) { … }
 * ```
 */
export function Idempotent(options?: IdempotencyOptions): MethodDecorator & ClassDecorator;
/**
 * Makes a method that handles no requests run once per key, which its arguments tell, and gives every repetition what the
 * first call returned: a service's, a job's processor, a scheduled task. As {@link IdempotencyService.run}, and throws
 * what that throws.
 *
 * Nest has to make the instance, in a module that sees `IdempotencyModule`.
 *
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
      `@Idempotent() stands on ${String(name)}, which is no method. Put it on a route's method or on a controller.`,
    );
  }
  if (typeof prototype === 'function') {
    throw new IdempotencyOptionsError(
      `@Idempotent() stands on ${String(name)}, which is static: it belongs to no application. Put it on a method of instances.`,
    );
  }
  const method = reportingEntry(descriptor.value as Method, prototype, name);
  descriptor.value = method;
  setIdempotentOptions(method, options);
  UseInterceptors(IdempotencyInterceptor)(prototype, name, descriptor);
  // What the method is shows when all decorators are applied.
  injectMethodRunner(prototype);
}

/**
 * Protects every route by itself, those aside that have a decorator of their own. The interceptor then
 * stands inside the method's other interceptors, which the answer has to pass before it is recorded.
 */
function protectClass(controller: new () => unknown, options: IdempotencyOptions): void {
  setIdempotentOptions(controller, options);
  const prototype = controller.prototype as Record<string, unknown>;
  for (const name of handlerNames(prototype)) {
    const method = prototype[name] as Method;
    if (reportsEntry(method) || !isMeantByClass(controller, method)) continue;
    const entry = reportingEntry(method, prototype, name);
    const descriptor = { value: entry, writable: true, configurable: true };
    UseInterceptors(IdempotencyInterceptor)(prototype, name, descriptor);
    Object.defineProperty(prototype, name, descriptor);
    injectMethodRunner(prototype);
  }
}

/**
 * Tells the running operation when the method itself is reached, and when it settles: pipes and inner
 * interceptors fail like it (contract C88), give up before it (C60c) or repeat it, inside one stream.
 */
function reportingEntry(method: Method, prototype: object, name: string | symbol): Method {
  const reporting: Method = function (...args) {
    const run = () => method.apply(this, args);
    const operation = operationOf(reporting);
    checkCalled(this, name, reporting);
    if (operation === undefined) {
      // Called by other code than its own pipeline, a handler is a plain method.
      return isDeclared(reporting, prototype, name)
        ? run()
        : runMethodOnce(this, reporting, args, run);
    }
    const { recover } = operation;
    if (recover === undefined) return enter(operation, run);
    return operation.lookUp(recover, (found) =>
      enter(operation, () => (found === 'run' ? run() : found.value)),
    );
  };
  // By the property: what other decorators have put around the method may have another name, or none.
  disguise(reporting, method, typeof name === 'string' ? name : method.name);
  markReportingEntry(reporting, prototype, name);
  return reporting;
}

/** Whether the method is declared as a handler, there or where another decorator has put something around it. */
function isDeclared(entry: Method, prototype: object, name: string | symbol): boolean {
  const declared = (prototype as Record<string | symbol, Method>)[name];
  return isHandler(entry) || (declared !== undefined && isHandler(declared));
}
