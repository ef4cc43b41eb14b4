import { IntrinsicException } from '@nestjs/common';
import { IdempotencyOptionsError, isIdempotencyError } from '../../core/util/errors.js';
import { isThenable, type Awaitable } from '../../core/util/maybe-async.js';

/** What to do where a function has failed because it found nothing. */
const REMEDIES: Readonly<Record<string, string>> = {
  scope:
    ' For an unknown caller, return undefined: the option "anonymous" decides about such requests.',
  key: ' Where there is no key, have it return undefined.',
};

/** What a mistake in a function throws, by the names of the classes: those of another realm are the same mistakes. */
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
 * Asks a function that was given as an option of an operation.
 *
 * @throws {@link IdempotencyOptionsError} where it fails by a built-in error, or by what is no error; but an exception
 * that is an answer itself, such as Nest's `UnauthorizedException`, as it is, and so an error of any class of its own,
 * which an exception filter of the application may be waiting for.
 */
export function askOption<Result>(option: string, operation: string, ask: () => Result): Result {
  try {
    return ask();
  } catch (error) {
    throw failureOf(option, operation, error);
  }
}

/** As {@link askOption}, of a function that may answer later. */
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

function failureOf(option: string, operation: string, cause: unknown): unknown {
  if (isResult(cause)) return cause;
  const error = new IdempotencyOptionsError(
    `The function given as the option "${option}" of ${operation} failed.${REMEDIES[option] ?? ''}`,
    { cause },
  );
  // Nest's filters log the stack, and no cause.
  const origin = cause instanceof Error ? cause.stack : String(cause);
  error.stack = `${error.stack ?? error.message}\nCaused by: ${origin ?? ''}`;
  return error;
}

/**
 * Whether it is meant to be read: exceptions of HTTP (those of http-errors and of Fastify, too, which Nest answers with
 * their status), of messages and gateways, of GraphQL, this library's, and the application's own.
 */
function isResult(error: unknown): boolean {
  if (error instanceof IntrinsicException || isIdempotencyError(error)) return true;
  if (!(error instanceof Error)) return false;
  if (!BUILT_IN.has(error.constructor.name)) return true;
  const isOfHttp = 'statusCode' in error && ('expose' in error || error.name === 'FastifyError');
  return isOfHttp || 'extensions' in error;
}
