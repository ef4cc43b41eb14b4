type Listener = (error: Error) => void;

/** What a query is described by: a configuration, or what submits itself, as cursors and streams do. */
interface Described {
  readonly text?: unknown;
  readonly submit?: unknown;
  readonly handleError?: unknown;
  callback?: unknown;
}

/** The statement that `query` of pg is called with, where it can be told. */
export function textOf([query]: readonly unknown[]): string | undefined {
  if (typeof query === 'string') return query;
  const { text } = described(query);
  return typeof text === 'string' ? text : undefined;
}

/**
 * What `query` of pg does with an error before it has sent anything: the callback hears of it, or the cursor, or
 * whoever awaits the promise. What was not asked for is not there: a promise that nobody holds would end the process.
 */
export function refuseQuery(request: readonly unknown[], error: Error): unknown {
  const query = described(request[0]);
  const callback = callbackOf(request);
  if (typeof query.submit === 'function') {
    query.callback ??= callback;
    const { handleError } = query;
    // Not the connection: it has never been given to it.
    if (isListener(handleError)) process.nextTick(() => handleError.call(query, error));
    return query;
  }
  const listener = callback ?? query.callback;
  if (!isListener(listener)) return Promise.reject(error);
  process.nextTick(listener, error);
  return undefined;
}

function described(query: unknown): Described {
  return typeof query === 'object' && query !== null ? query : {};
}

/** The last of them, as pg has it. */
function callbackOf([, values, callback]: readonly unknown[]): Listener | undefined {
  return [callback, values].find(isListener);
}

function isListener(value: unknown): value is Listener {
  return typeof value === 'function';
}
