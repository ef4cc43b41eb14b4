import { Inject, Injectable, Optional, type Type } from '@nestjs/common';
import { fingerprint } from '../core/record/fingerprint.js';
import type { Scope } from '../core/record/scope.js';
import {
  IdempotencyOptionsError,
  OperationRejectedError,
  rejectionError,
} from '../core/errors/errors.js';
import { atOnce } from '../core/util/maybe-async.js';
import type { Call, CallResult } from '../transports/call/call.js';
import { CallTransport, valueOf } from '../transports/call/call-transport.js';
import { keyOf } from '../transports/common/ask-option.js';
import { chosenContent } from '../transports/common/chosen-content.js';
import { toScope } from '../transports/common/scope.js';
import type { Handler } from './discovery/idempotent.metadata.js';
import { checkInstance, METHOD_RUNNER } from './discovery/instances.js';
import { HandlerRoutes } from './registry/handler-routes.js';
import type { MethodRoute } from './registry/method-route.js';

const KEY_REMEDY = 'The function given as the option "key" must return a non-empty string.';

const SCOPE_REMEDY =
  'The function given as the option "scope" must return all parts, such as the tenant.';

/** Runs the idempotent methods that are not handlers. Nest injects it into their instances. */
@Injectable()
export class IdempotentMethods {
  constructor(
    private readonly calls: CallTransport,
    private readonly routes: HandlerRoutes,
  ) {}

  /** @param entry - the function that `@Idempotent()` made of the method. */
  async run(
    type: Type,
    entry: Handler,
    args: readonly unknown[],
    operation: () => unknown,
  ): Promise<unknown> {
    const route = this.routes.method(type, entry);
    const call = this.callOf(route, args);
    const result: CallResult =
      call instanceof OperationRejectedError
        ? { kind: 'rejected', error: call }
        : await this.calls.settle(call, operation);
    if (result.kind === 'rejected' && route.onRejected !== undefined) {
      return route.onRejected(result.error, ...args);
    }
    return valueOf(result);
  }

  private callOf(route: MethodRoute, args: readonly unknown[]): Call | OperationRejectedError {
    try {
      const call = callOf(route, args);
      if (call instanceof OperationRejectedError)
        this.calls.reportInvalid(route.operation, 'call', call);
      return call;
    } catch (error) {
      this.calls.reportInvalid(route.operation, 'call', error);
      throw error;
    }
  }
}

function callOf(route: MethodRoute, args: readonly unknown[]): Call | OperationRejectedError {
  const { operation, keep, format, options } = route;
  const key = keyOf(atOnce('key', route.key(...args), operation), operation);
  if (key === undefined || key === '') {
    return rejectionError('idempotency_key_missing', { operation, remedy: KEY_REMEDY });
  }
  const scope = scopeOf(route, args);
  if (scope === undefined) {
    return rejectionError('idempotency_caller_unknown', { operation, remedy: SCOPE_REMEDY });
  }
  return {
    operation,
    transport: 'call',
    keyOperation: operation,
    key,
    scope,
    fingerprint: fingerprint([operation, payloadOf(route, args)]),
    keep,
    format,
    options,
  };
}

function scopeOf({ operation, scope }: MethodRoute, args: readonly unknown[]): Scope | undefined {
  if (scope === undefined) return [];
  return toScope(atOnce('scope', scope(...args), operation), operation, 'scope', true);
}

/** The content to compare; nothing without the option `payload`. */
function payloadOf(
  { operation, payload }: MethodRoute,
  args: readonly unknown[],
): string | Uint8Array {
  return payload === undefined ? '' : chosenContent(payload(...args), 'payload', operation);
}

/**
 * Makes Nest inject {@link IdempotentMethods} into the instances of a class and of its derived classes; optionally, since
 * a test may have overridden the interceptors of a class. The setter also checks each instance: request-scoped ones,
 * and proxies in front of one, cannot be seen earlier.
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

/** Runs a method once per key. It never throws, but rejects, as every asynchronous method does. */
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

function unreachable(instance: unknown, entry: Handler): IdempotencyOptionsError {
  if (typeof instance !== 'object' || instance === null) {
    return new IdempotencyOptionsError(
      `${entry.name}() is idempotent but was called without its instance, and so without a store. Call it on the instance, or bind it first.`,
    );
  }
  const { name } = instance.constructor;
  return new IdempotencyOptionsError(
    `${name}.${entry.name}() is idempotent but its instance was not created by Nest (or it was called in the constructor). Provide ${name} as a class and import IdempotencyModule, or use IdempotencyService.run(). In a unit test, create it by Test.createTestingModule({ imports: [IdempotencyTestingModule.passThrough()], providers: [${name}] }), or call unprotected(new ${name}(…)), both from nestjs-idempotency/testing.`,
  );
}
