/** What can be said about one operation beyond what `fetch` knows. */
export interface IdempotentFetchOptions {
  /**
   * The operation's key: the same for every repetition of it, another for every other operation. Give the one
   * of an earlier call to go on with its operation. Printable ASCII; the server's limit is 255 characters
   * unless it says otherwise.
   * @defaultValue a new random UUID
   */
  readonly key?: string | undefined;

  /**
   * The most requests that one call sends, the first one included.
   * @defaultValue 10
   */
  readonly maxTries?: number;

  /**
   * Milliseconds that the whole call may take, with all tries and pauses; `Infinity` for no limit. Ends the
   * call at once where the next pause would not fit.
   * @defaultValue 60000
   */
  readonly deadlineMs?: number;

  /**
   * Milliseconds that one try may take until its answer is read to the end; `Infinity` for no limit. A try
   * that takes longer counts as lost, and the next one finds the operation in progress, or done. Longer than
   * the server's `waitTimeoutMs` where it holds duplicates (`whenInProgress: 'wait'`).
   * @defaultValue 20000
   */
  readonly tryTimeoutMs?: number;

  /**
   * Milliseconds of the longest pause after the first try; it doubles with every try. Each pause is drawn
   * between 0 and that ("full jitter"), and comes on top of what `Retry-After` asks for.
   * @defaultValue 200
   */
  readonly backoffBaseMs?: number;

  /**
   * Milliseconds that the drawn pauses do not grow beyond. `Retry-After` is not bound by it, only by
   * {@link deadlineMs}.
   * @defaultValue 10000
   */
  readonly backoffCapMs?: number;

  /**
   * Whether 5xx answers other than 503 are retried (501 and 505 never are). On by default because the server
   * lets a failed operation run again by default, and because a 502 or 504 of a gateway says nothing about
   * what happened behind it. A 5xx that the server keeps comes back marked as replay, which ends the call.
   * @defaultValue true
   */
  readonly retryServerErrors?: boolean;

  /**
   * Whether 425 "too early" and 429 "too many requests" are retried.
   * @defaultValue true
   */
  readonly retryThrottled?: boolean;

  /**
   * Whether a stream given as body is read into memory first. A stream can be sent only once, so without this
   * it is refused.
   * @defaultValue false
   */
  readonly bufferStream?: boolean;

  /**
   * Name of the header that carries the key: what the server's option `key` says.
   * @defaultValue 'Idempotency-Key'
   */
  readonly keyHeader?: string;

  /**
   * Name of the header that marks a replay: what the server's option `replayHeader` says.
   * @defaultValue 'Idempotent-Replayed'
   */
  readonly replayHeader?: string;

  /**
   * What sends the requests, with `fetch`'s own signature.
   * @defaultValue the global `fetch`
   */
  readonly fetch?: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

  /**
   * Draws the pauses: a number from 0 to below 1.
   * @defaultValue `Math.random`
   */
  readonly random?: () => number;
}
