import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import { keepSuccesses, type OutcomePolicy } from '../../core/operation/outcome-policy.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError, type OperationRejectedError } from '../../core/util/errors.js';
import { checkFunction, checkNames, throwOptionError } from '../../core/util/option-checks.js';
import { recoverableCall } from '../../transports/call/call-recovery.js';
import { valueFormat, type OutcomeFormat } from '../../transports/call/outcome-format.js';
import { METHOD_OPTION_NAMES, type IdempotentMethodOptions } from '../options/call-options.js';
import {
  OPERATION_REMEDIES,
  resolveOptions,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
} from '../options/idempotency-options.js';

/** Everything about a protected method that does not change from call to call. */
export interface MethodRoute {
  /** The operation's stable name. */
  readonly operation: string;
  /** As they were given: they may answer with anything. */
  readonly key: (...args: readonly unknown[]) => unknown;
  readonly scope: ((...args: readonly unknown[]) => unknown) | undefined;
  readonly payload: ((...args: readonly unknown[]) => unknown) | undefined;
  readonly onRejected:
    ((error: OperationRejectedError, ...args: readonly unknown[]) => unknown) | undefined;
  readonly keep: OutcomePolicy;
  readonly format: OutcomeFormat;
  readonly maxStoredBytes: number;
  readonly protocol: ResolvedProtocolOptions;
}

const NAMES = new Set([...METHOD_OPTION_NAMES, 'onRejected']);

/**
 * @param method - `Class.method`.
 * @param ofClass - the options that `@Idempotent()` was given on the class, for all that is in it.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
export function methodRoute(
  method: string,
  module: IdempotencyModuleOptions,
  ofClass: IdempotencyOptions | undefined,
  options: Partial<IdempotentMethodOptions<readonly unknown[]>>,
): MethodRoute {
  if (typeof options.key !== 'function') {
    throw new IdempotencyOptionsError(
      `${method} has @Idempotent() and is the handler of no request, so that nothing but its arguments can tell the idempotency key: set the option "key" to a function of them, such as key: (order) => order.id. If it is to be a handler, its own decorator is missing: @Post(), @EventPattern() or the like.`,
    );
  }
  checkNames(
    '@Idempotent() on a method that handles no requests',
    options,
    NAMES,
    OPERATION_REMEDIES,
  );
  const { operation = method, key, scope, payload, onRejected, keep, ...own } = options;
  if (typeof operation !== 'string' || operation === '') {
    throwOptionError('operation', 'a text that is not empty', operation);
  }
  for (const [name, value] of Object.entries({ scope, payload, onRejected, keep })) {
    if (value !== undefined) checkFunction(name, value);
  }
  const { protocol, http, codec } = resolveOptions(module, ofClass ?? {}, own);
  return Object.freeze({
    operation,
    key,
    scope,
    payload,
    onRejected,
    keep: keep ?? keepSuccesses,
    format: valueFormat(codec),
    maxStoredBytes: http.maxStoredBytes,
    protocol,
  });
}

/** How records of a method are recovered without a call of it; `undefined` where it has no function for it. */
export function recoverableMethod(route: MethodRoute): RecoverableOperation | undefined {
  const { onTakeover } = route.protocol;
  if (typeof onTakeover !== 'function') return undefined;
  return recoverableCall({ ...route.protocol, onTakeover }, route);
}
