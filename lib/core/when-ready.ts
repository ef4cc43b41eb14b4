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
