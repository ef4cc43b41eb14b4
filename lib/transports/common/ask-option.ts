import { IntrinsicException, type ExecutionContext } from '@nestjs/common';
import { IdempotencyOptionsError, isIdempotencyError } from '../../core/errors/errors.js';
import { atOnce, forget, isThenable, type Awaitable } from '../../core/util/maybe-async.js';
import { classOf } from '../../core/options/option-checks.js';
import type { ResolvedRequestOptions } from './request-options.js';

/** Remedies for a function that threw because it found nothing. */
const REMEDIES: Readonly<Record<string, string>> = {
  'caller.scope':
    ' Return undefined for an unknown caller: the option "caller.anonymous" then decides.',
  key: ' Return undefined if there is no key.',
};

const OR_PATH =
  ', or set "key.from" to a path, { payload: \'order.id\' }, which reads strings and integers';

/** Classes that programming mistakes throw. By name, because another realm has its own classes. */
const BUILT_IN = new Set([
  'Error',
  'AggregateError',
  'EvalError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'TypeError',
  'URIError',
]);

/**
 * Calls a function given as an option. Rethrows exceptions that describe a response, such as Nest's
 * `UnauthorizedException`, and the application's own errors, which its exception filters may handle.
 * @throws {@link IdempotencyOptionsError} if the function throws a built-in error, or a value that is not an error.
 */
export function askOption<Result>(option: string, operation: string, ask: () => Result): Result {
  try {
    return ask();
  } catch (error) {
    throw failureOf(option, operation, error);
  }
}

/** {@link askOption} for a function that may return a promise. */
export function askOptionLater<Result>(
  option: string,
  operation: string,
  ask: () => Awaitable<Result>,
): Result | Promise<Result> {
  const result = askOption(option, operation, ask);
  if (!isThenable(result)) return result;
  return Promise.resolve(result).catch((error: unknown) => {
    throw failureOf(option, operation, error);
  });
}

/**
 * Calls the function given as the option `key`.
 * @returns the key, not checked any further; `undefined` if it returned `undefined` or `null`: there is none.
 * @throws {@link IdempotencyOptionsError} as {@link askOption}, and for a value of another type.
 */
export function askKey(
  choose: (context: ExecutionContext) => unknown,
  context: ExecutionContext,
  operation: string,
): string | undefined {
  const chosen = askOption('key', operation, () => atOnce('key', choose(context), operation));
  return keyOf(chosen, operation, OR_PATH);
}

/**
 * The key that a function returned: see {@link askKey}.
 * @param remedy - besides a conversion.
 */
export function keyOf(chosen: unknown, operation: string, remedy = ''): string | undefined {
  if (chosen === undefined || chosen === null) return undefined;
  if (typeof chosen === 'string') return chosen;
  throw new IdempotencyOptionsError(
    `The function given as the option "key" of ${operation} returned ${classOf(chosen)}. It must return a string, or undefined if there is no key. Convert a number, such as String(order.id)${remedy}.`,
  );
}

function failureOf(option: string, operation: string, cause: unknown): unknown {
  if (isResult(cause)) return cause;
  const error = new IdempotencyOptionsError(
    `The function given as the option "${option}" of ${operation} failed.${REMEDIES[option] ?? ''}`,
    { cause },
  );
  // Nest's filters log the stack, but not the cause.
  const origin = cause instanceof Error ? cause.stack : String(cause);
  error.stack = `${error.stack ?? error.message}\nCaused by: ${origin ?? ''}`;
  return error;
}

/**
 * Whether an error is meant for the client or for a filter: exceptions of HTTP (also of http-errors and Fastify, whose
 * status Nest uses), messages, gateways and GraphQL, errors of this library, and the application's own classes.
 */
function isResult(error: unknown): boolean {
  if (error instanceof IntrinsicException || isIdempotencyError(error)) return true;
  if (!(error instanceof Error)) return false;
  if (!BUILT_IN.has(error.constructor.name)) return true;
  const isOfHttp = 'statusCode' in error && ('expose' in error || error.name === 'FastifyError');
  return isOfHttp || 'extensions' in error;
}

/** @throws {@link IdempotencyOptionsError} if the function given as the option throws or does not return a boolean. */
export function isEnabled(
  context: ExecutionContext,
  operation: string,
  { enabled }: Pick<ResolvedRequestOptions, 'enabled'>,
): boolean {
  const result: unknown =
    typeof enabled === 'function'
      ? askOption('enabled', operation, () => enabled(context))
      : enabled;
  if (typeof result === 'boolean') return result;
  forget(result);
  throw new IdempotencyOptionsError(
    `The function given as the option "enabled" of ${operation} must return true or false synchronously.`,
  );
}

const UNPROTECTED = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** Safe methods have no effect to protect (RFC 9110 §9.2.1): the key is ignored (contract C21). */
export function isUnprotectedMethod(method: string): boolean {
  return UNPROTECTED.has(method);
}
