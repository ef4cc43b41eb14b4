import { Inject, Optional, type Type } from '@nestjs/common';
import { IdempotencyOptionsError } from '../../core/errors.js';
import type { Handler } from '../../transports/http/http-route.js';
import { checkInstance } from '../routes/wrapped-handlers.js';
import { CALLS } from './call-instances.js';
import { IdempotentCalls } from './idempotent-calls.js';

/**
 * Has Nest give {@link IdempotentCalls} to the instances of a class, those of derived classes included. Not as a
 * condition: a class whose interceptors a test has overridden may do without.
 *
 * Each instance is looked at then: those that Nest makes for one request are at no other time within reach before it
 * calls them, and only here is a proxy in front of an instance seen.
 */
export function injectCalls(prototype: object): void {
  if (Object.hasOwn(prototype, CALLS)) return;
  Object.defineProperty(prototype, CALLS, {
    configurable: true,
    get: () => undefined,
    set(this: object, value: IdempotentCalls) {
      checkInstance(this, Object.getPrototypeOf(this));
      const property = { value, writable: true, enumerable: true, configurable: true };
      Object.defineProperty(this, CALLS, property);
    },
  });
  Inject(IdempotentCalls)(prototype, CALLS);
  Optional()(prototype, CALLS);
}

/**
 * Runs a method once per key. Never throws: what is wrong comes as a rejection, as from every asynchronous method.
 *
 * @param instance - whose method was called.
 * @param entry - the method as `@Idempotent()` left it.
 * @param operation - the method itself, with its arguments.
 */
export async function callOnce(
  instance: unknown,
  entry: Handler,
  args: readonly unknown[],
  operation: () => unknown,
): Promise<unknown> {
  const { [CALLS]: calls } = (instance ?? {}) as { readonly [CALLS]?: IdempotentCalls };
  if (calls === undefined) {
    throw new IdempotencyOptionsError(
      `${entry.name}() has @Idempotent() and was called where its store cannot be reached: on an instance that Nest has not made from its class (by new, useFactory or useValue), in its constructor, without an instance, or in a module that does not see IdempotencyModule. Have Nest make the instance, and import IdempotencyModule; or use IdempotencyService.run().`,
    );
  }
  return calls.run((instance as object).constructor as Type, entry, args, operation);
}
