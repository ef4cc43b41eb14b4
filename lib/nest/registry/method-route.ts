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

/** The properties of an idempotent method that all its calls share. */
export interface MethodRoute {
  readonly operation: string;
  /** As given: it may return anything. */
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

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function methodRoute(
  method: string,
  module: IdempotencyModuleOptions,
  ofClass: IdempotencyOptions | undefined,
  options: Partial<IdempotentMethodOptions<readonly unknown[]>>,
): MethodRoute {
  if (typeof options.key !== 'function') {
    throw new IdempotencyOptionsError(
      `${method} has @Idempotent() but is not a request handler, so its key must come from its arguments. Set the option "key" to a function of them, such as key: (order) => order.id. If it should be a handler, add its decorator: @Post(), @EventPattern() or the like.`,
    );
  }
  checkNames('@Idempotent() on a method that is not a handler', options, NAMES, OPERATION_REMEDIES);
  const { operation = method, key, scope, payload, onRejected, keep, ...own } = options;
  if (typeof operation !== 'string' || operation === '') {
    throwOptionError('operation', 'a non-empty string', operation);
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

/** How records of a method are recovered without a call; `undefined` if it has no function for it. */
export function recoverableMethod(route: MethodRoute): RecoverableOperation | undefined {
  const { onTakeover } = route.protocol;
  if (typeof onTakeover !== 'function') return undefined;
  return recoverableCall({ ...route.protocol, onTakeover }, route);
}
