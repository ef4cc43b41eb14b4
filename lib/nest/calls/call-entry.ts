import { Inject, Optional, type Type } from '@nestjs/common';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
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
  if (calls === undefined) throw unreachable(instance, entry);
  return calls.run((instance as object).constructor as Type, entry, args, operation);
}

/** Where nothing leads to a store, and what to do there. */
function unreachable(instance: unknown, entry: Handler): IdempotencyOptionsError {
  if (typeof instance !== 'object' || instance === null) {
    return new IdempotencyOptionsError(
      `${entry.name}() has @Idempotent() and was called without its instance, through which it reaches its store: call it on the instance, or bind it first.`,
    );
  }
  const { name } = instance.constructor;
  return new IdempotencyOptionsError(
    `${name}.${entry.name}() has @Idempotent(), and this instance of ${name} has no way to a store: it was made by new, useFactory or useValue and not by Nest, or called in its constructor, or its module does not see IdempotencyModule. In the application: have Nest make it from its class, and import IdempotencyModule; or use IdempotencyService.run(). In a unit test: make it by Test.createTestingModule({ imports: [IdempotencyTestingModule.passThrough()], providers: [${name}] }), or call unprotected(new ${name}(…)); both come from nestjs-idempotency/testing.`,
  );
}
