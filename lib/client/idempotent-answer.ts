/** What {@link idempotentFetch} resolves with: the operation's answer, and how it was come by. */
export interface IdempotentAnswer {
  /**
   * The answer, of whatever status: as with `fetch`, a 402 of the operation is an answer. It has been read
   * to its end, so that `json()`, `text()` and the like cannot fail for the network's sake any more.
   */
  readonly response: Response;
  /** The key that the operation was sent with, in all tries. */
  readonly key: string;
  /**
   * Whether the server repeated an outcome that it had stored, instead of running the operation for this
   * very request. Always `false` in a browser on another origin whose server does not expose the marker's
   * header (`Access-Control-Expose-Headers`).
   */
  readonly replayed: boolean;
  /** How many requests were sent until this answer came: 1 when the first one got it. */
  readonly tries: number;
}
