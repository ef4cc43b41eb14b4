import { types } from 'node:util';
import { IdempotencyOptionsError } from '../errors/errors.js';

/** A value, or a thenable of it: also promises of other realms and lazy query builders. */
export type Awaitable<Value> = Value | PromiseLike<Value>;

/** Calls `goOn`, at once unless the value is a promise. An `await` would cost two promises and a microtask pass. */
export function whenReady<Value, Result>(
  value: Awaitable<Value>,
  goOn: (value: Value) => Result,
): Result | Promise<Awaited<Result>> {
  return isThenable(value)
    ? Promise.resolve(value).then<Awaited<Result>>(goOn as never)
    : goOn(value);
}

export function isThenable<Value>(value: Awaitable<Value>): value is PromiseLike<Value> {
  try {
    return typeof (value as Partial<PromiseLike<Value>> | null | undefined)?.then === 'function';
  } catch {
    // Of a revoked proxy, or by a getter that throws: what reads the value next refuses it.
    return false;
  }
}

/** Returns the result of an option's function. Throws {@link IdempotencyOptionsError} if it is a promise. */
export function atOnce<Result>(option: string, result: Result, operation?: string): Result {
  if (!isThenable(result)) return result;
  forget(result);
  const owner = operation === undefined ? '' : ` of ${operation}`;
  throw new IdempotencyOptionsError(
    `The function given as the option "${option}"${owner} returned a promise. It must return its result synchronously.`,
  );
}

/** Discards a result. `failed` gets a promise's rejection, which would otherwise end the process. */
export function forget(result: unknown, failed: (error: unknown) => void = ignore): void {
  // Only promises: calling `then` on another thenable could run a lazy query.
  if (types.isPromise(result)) result.catch(failed);
}

function ignore(): void {
  // The result is not used.
}
