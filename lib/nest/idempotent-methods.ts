import { Inject, Injectable, Optional, type Type } from '@nestjs/common';
import { fingerprint } from '../core/record/fingerprint.js';
import type { Scope } from '../core/record/record-key.js';
import { IdempotencyOptionsError, OperationRejectedError } from '../core/util/errors.js';
import { atOnce } from '../core/util/maybe-async.js';
import type { Call, CallResult } from '../transports/call/call.js';
import { CallTransport, valueOf } from '../transports/call/call-transport.js';
import { callerUnknown, keyMissing } from '../transports/call/rejection-errors.js';
import { chosenContent } from '../transports/common/bytes-or-json.js';
import type { ScopeResult } from '../transports/common/request-options.js';
import { toScope } from '../transports/common/scope.js';
import type { Handler } from '../transports/http/http-route.js';
import { METHOD_RUNNER } from './discovery/call-instances.js';
import { checkInstance } from './discovery/wrapped-handlers.js';
import type { MethodRoute } from './registry/method-route.js';
import { RouteRegistry } from './registry/route-registry.js';

const KEY_REMEDY =
  'The function given as the option "key" has to answer with a text that is not empty.';

const SCOPE_REMEDY =
  'The function given as the option "scope" has to answer with all parts, such as the tenant.';

/** Runs the methods that `@Idempotent()` stands on and that handle no requests. Nest gives it to their instances. */
@Injectable()
export class IdempotentMethods {
  constructor(
    private readonly calls: CallTransport,
    private readonly routes: RouteRegistry,
  ) {}

  /**
   * @param type - the class of the instance.
   * @param entry - the method as `@Idempotent()` left it.
   * @param operation - the method itself, with its arguments.
   */
  async run(
    type: Type,
    entry: Handler,
    args: readonly unknown[],
    operation: () => unknown,
  ): Promise<unknown> {
    const route = this.routes.calls.of(type, entry);
    const call = callOf(route, args);
    const result: CallResult =
      call instanceof OperationRejectedError
        ? { kind: 'rejected', error: call }
        : await this.calls.settle(call, operation);
    if (result.kind === 'rejected' && route.onRejected !== undefined) {
      return route.onRejected(result.error, ...args);
    }
    return valueOf(result);
  }
}

function callOf(route: MethodRoute, args: readonly unknown[]): Call | OperationRejectedError {
  const { operation, keep, format, maxStoredBytes, protocol: options } = route;
  const key = atOnce('key', route.key(...args), operation);
  if (typeof key !== 'string' || key === '') return keyMissing(operation, KEY_REMEDY);
  const scope = scopeOf(route, args);
  if (scope === undefined) return callerUnknown(operation, SCOPE_REMEDY);
  return {
    operation,
    keyOperation: operation,
    key,
    scope,
    fingerprint: fingerprint([operation, payloadOf(route, args)]),
    keep,
    format,
    maxStoredBytes,
    options,
  };
}

/** Whose key it is; `undefined` where a part of it is missing. */
function scopeOf({ operation, scope }: MethodRoute, args: readonly unknown[]): Scope | undefined {
  const result =
    scope === undefined ? [] : (atOnce('scope', scope(...args), operation) as ScopeResult);
  const isNobodys = Array.isArray(result) && result.length === 0;
  return isNobodys ? [] : toScope(result, operation);
}

/** What is compared of a call; without the option `payload` nothing is. */
function payloadOf(
  { operation, payload }: MethodRoute,
  args: readonly unknown[],
): string | Uint8Array {
  return payload === undefined ? '' : chosenContent(payload(...args), 'payload', operation);
}

/**
 * Has Nest give {@link IdempotentMethods} to the instances of a class, those of derived classes included. Not as a
 * condition: a class whose interceptors a test has overridden may do without.
 *
 * Each instance is looked at then: those that Nest makes for one request are at no other time within reach before it
 * calls them, and only here is a proxy in front of an instance seen.
 */
export function injectMethodRunner(prototype: object): void {
  if (Object.hasOwn(prototype, METHOD_RUNNER)) return;
  Object.defineProperty(prototype, METHOD_RUNNER, {
    configurable: true,
    get: () => undefined,
    set(this: object, value: IdempotentMethods) {
      checkInstance(this, Object.getPrototypeOf(this));
      const property = { value, writable: true, enumerable: true, configurable: true };
      Object.defineProperty(this, METHOD_RUNNER, property);
    },
  });
  Inject(IdempotentMethods)(prototype, METHOD_RUNNER);
  Optional()(prototype, METHOD_RUNNER);
}

/**
 * Runs a method once per key. Never throws: what is wrong comes as a rejection, as from every asynchronous method.
 *
 * @param instance - whose method was called.
 * @param entry - the method as `@Idempotent()` left it.
 * @param operation - the method itself, with its arguments.
 */
export async function runMethodOnce(
  instance: unknown,
  entry: Handler,
  args: readonly unknown[],
  operation: () => unknown,
): Promise<unknown> {
  const { [METHOD_RUNNER]: calls } = (instance ?? {}) as {
    readonly [METHOD_RUNNER]?: IdempotentMethods;
  };
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
