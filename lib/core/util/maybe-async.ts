import { types } from 'node:util';
import { IdempotencyOptionsError } from './errors.js';

/** What is there, or will be: promises of other realms and lazy query builders, too. */
export type Awaitable<Value> = Value | PromiseLike<Value>;

/**
 * Goes on with what is there at once, and with what will be there when it is. What nearly always is there is not worth an
 * `await`: two promises each time, and a turn in the queue behind those of everybody else.
 */
export function whenReady<Value, Result>(
  value: Awaitable<Value>,
  goOn: (value: Value) => Result,
): Result | Promise<Awaited<Result>> {
  return isThenable(value)
    ? Promise.resolve(value).then<Awaited<Result>>(goOn as never)
    : goOn(value);
}

export function isThenable<Value>(value: Awaitable<Value>): value is PromiseLike<Value> {
  return typeof (value as Partial<PromiseLike<Value>> | null | undefined)?.then === 'function';
}

/**
 * The answer of a function that has to answer at once.
 *
 * @param option - its name.
 * @param operation - whose option it is, where that is known.
 * @throws {@link IdempotencyOptionsError} for a promise.
 */
export function atOnce<Result>(option: string, result: Result, operation?: string): Result {
  if (!isThenable(result)) return result;
  forget(result);
  const owner = operation === undefined ? '' : ` of ${operation}`;
  throw new IdempotencyOptionsError(
    `The function given as the option "${option}"${owner} returned a promise: it has to answer at once.`,
  );
}

const warned = new Set<string>();

let warn = (message: string): void => {
  process.emitWarning(message, { type: 'IdempotencyWarning', code: 'IDEMPOTENCY_PROMISE_IGNORED' });
};

/** Has such warnings go where the application logs. */
export function warnBy(report: (message: string) => void): void {
  warn = report;
}

/** Ignores the answer of a function that has to answer at once, and warns where it is a promise, once for each option. */
export function ignoreResult(option: string, result: unknown): void {
  if (!isThenable(result)) return;
  forget(result);
  if (warned.has(option)) return;
  warned.add(option);
  warn(
    `The function given as the option "${option}" returned a promise: it has to answer at once. Its default counts instead. [IDEMPOTENCY_PROMISE_IGNORED]`,
  );
}

/**
 * Does not wait for an answer: were it a promise that rejects, it would end the process.
 *
 * @param failed - is told of the rejection.
 */
export function forget(result: unknown, failed: (error: unknown) => void = ignore): void {
  // Of no other thenable: to call its `then` would run a lazy query.
  if (types.isPromise(result)) result.catch(failed);
}

function ignore(): void {
  // It was no answer.
}
