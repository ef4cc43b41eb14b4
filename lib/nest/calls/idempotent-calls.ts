import { Injectable, type Type } from '@nestjs/common';
import { fingerprint } from '../../core/record/fingerprint.js';
import type { Scope } from '../../core/record/record-key.js';
import { OperationRejectedError } from '../../core/util/errors.js';
import { atOnce } from '../../core/util/maybe-async.js';
import type { Call, CallResult } from '../../transports/call/call.js';
import { CallTransport, valueOf } from '../../transports/call/call-transport.js';
import { callerUnknown, keyMissing } from '../../transports/call/rejection-errors.js';
import { chosenContent } from '../../transports/common/bytes-or-json.js';
import type { ScopeAnswer } from '../../transports/common/request-options.js';
import { toScope } from '../../transports/common/scope.js';
import type { Handler } from '../../transports/http/http-route.js';
import { RouteRegistry } from '../routes/route-registry.js';
import type { CallRoute } from './call-route.js';

const KEY_REMEDY =
  'The function given as the option "key" has to answer with a text that is not empty.';

const SCOPE_REMEDY =
  'The function given as the option "scope" has to answer with all parts, such as the tenant.';

/** Runs the methods that `@Idempotent()` stands on and that handle no requests. Nest gives it to their instances. */
@Injectable()
export class IdempotentCalls {
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

function callOf(route: CallRoute, args: readonly unknown[]): Call | OperationRejectedError {
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
function scopeOf({ operation, scope }: CallRoute, args: readonly unknown[]): Scope | undefined {
  const answer =
    scope === undefined ? [] : (atOnce('scope', scope(...args), operation) as ScopeAnswer);
  const isNobodys = Array.isArray(answer) && answer.length === 0;
  return isNobodys ? [] : toScope(answer, operation);
}

/** What is compared of a call; without the option `payload` nothing is. */
function payloadOf(
  { operation, payload }: CallRoute,
  args: readonly unknown[],
): string | Uint8Array {
  return payload === undefined ? '' : chosenContent(payload(...args), 'payload', operation);
}
