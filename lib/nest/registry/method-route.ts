import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { OutcomePolicy } from '../../core/operation/outcome-policy.js';
import { IdempotencyOptionsError, type OperationRejectedError } from '../../core/errors/errors.js';
import { checkFunction, completeCopy } from '../../core/options/option-checks.js';
import { valueFormat, type OutcomeFormat } from '../../transports/call/outcome-format.js';
import {
  CALL_NAMES,
  IDENTITY_NAMES,
  type IdempotentMethodOptions,
} from '../options/call-options.js';
import {
  callLevel,
  handlerLevel,
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
  readonly options: ResolvedProtocolOptions;
}

const NAMES = [...IDENTITY_NAMES, 'onRejected'];

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function methodRoute(
  method: string,
  module: IdempotencyModuleOptions,
  ofClass: IdempotencyOptions | undefined,
  options: Partial<IdempotentMethodOptions<readonly unknown[]>>,
): MethodRoute {
  const { key, scope, payload, onRejected, ...given } = completeCopy(options, [
    ...CALL_NAMES,
    'onRejected',
  ]);
  if (typeof key !== 'function') {
    throw new IdempotencyOptionsError(
      `${method} has @Idempotent() but is not a request handler, so its key must come from its arguments. Set the option "key" to a function of them, such as key: (order) => order.id. If it should be a handler, add its decorator: @Post(), @EventPattern() or the like.`,
    );
  }
  const resolved = resolveOptions(
    'call',
    module,
    handlerLevel('class', ofClass ?? {}),
    callLevel('@Idempotent() on a method that is not a handler', given, NAMES),
  );
  for (const [name, value] of Object.entries({ scope, payload, onRejected })) {
    if (value !== undefined) checkFunction(name, value);
  }
  const { keep, codec } = resolved.outcome;
  return Object.freeze({
    operation: given.operation ?? method,
    key,
    scope,
    payload,
    onRejected,
    keep,
    format: valueFormat(codec),
    options: resolved,
  });
}
