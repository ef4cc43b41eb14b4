/** A rejection: the operation was not run, or its outcome cannot be returned. */
export interface Rejection {
  /** Of the HTTP response. */
  readonly status: number;
  /** The problem document's, the same for every problem of a type. */
  readonly title: string;
  /** The problem document's: what the HTTP client does. */
  readonly detail: string;
  /** Whether a later retry with the same key may get another response. */
  readonly retryable: boolean;
  /**
   * What the error says to callers of methods, messages and fields, with `{…}` for what the caller of
   * `rejectionError()` adds. Without it, the title.
   */
  readonly message?: string;
  /** What these callers do; it follows the message. */
  readonly remedy?: string;
  /** The folder of its page in docs/reference/problems, and the end of the problem's `type`. */
  readonly page: string;
}

/**
 * All rejections by their codes. HTTP's problem documents, the errors of all other transports, the OpenAPI document and
 * the client's codes are made from it. The pages in docs/reference/problems are tested against it.
 */
export const REJECTIONS = {
  /** The request has no key, which the operation requires (contract C18). */
  idempotency_key_missing: {
    status: 400,
    title: 'Idempotency-Key is missing',
    detail:
      'Send a key that is new for every intended operation and the same on every retry of it.',
    retryable: false,
    message: '{operation} requires an idempotency key.',
    page: 'key-missing',
  },
  /** The key is malformed, present twice, or too long (contract C06–C14). */
  idempotency_key_invalid: {
    status: 400,
    title: 'Idempotency-Key is not valid',
    detail: 'Send the key once, in printable ASCII, within the length that the API documents.',
    retryable: false,
    message: 'The idempotency key of {operation} must be {form}.',
    page: 'key-invalid',
  },
  /** The caller is unknown (contract C30). */
  idempotency_caller_unknown: {
    status: 400,
    title: 'Idempotency-Key needs an authenticated caller',
    detail: 'Authenticate: a key identifies an operation only together with its caller.',
    retryable: false,
    message: 'Cannot determine the caller of {operation}.',
    page: 'caller-unknown',
  },
  /** The content has no canonical form, so retries cannot be recognised (contract C35). */
  idempotency_content_invalid: {
    status: 400,
    title: "The request's content cannot be compared",
    detail:
      'Send a media type that the API reads, with finite numbers and at most 1,000 levels of nesting.',
    retryable: false,
    page: 'content-invalid',
  },
  /** The first request is still being processed (contract C50). */
  idempotency_in_progress: {
    status: 409,
    title: 'A request with this Idempotency-Key is in progress',
    detail: 'Retry the same request with the same key later.',
    retryable: true,
    message: 'A call with this idempotency key is still in progress.',
    page: 'in-progress',
  },
  /** The operation is done, but its response was not kept (contract C70a). */
  idempotency_response_not_kept: {
    status: 409,
    title: 'The request was completed, its response was not kept',
    detail: 'Do not repeat it; look up its result by other means.',
    retryable: false,
    message: 'The operation completed, but its value {problem}.',
    page: 'response-not-kept',
  },
  /**
   * An earlier attempt's outcome is unknown (its process died, and `lease.onTakeover` is `'reject'`), or this attempt lost its
   * lease and the key was used for other content.
   */
  idempotency_outcome_unknown: {
    status: 409,
    title: 'The outcome of the first request is unknown',
    detail: 'Check whether the operation took effect before you send it with a new key.',
    retryable: false,
    message: 'The outcome of a call with this idempotency key is unknown.',
    remedy: 'Check its effect before you use a new key.',
    page: 'outcome-unknown',
  },
  /** The operation is done, but its stored outcome is damaged, or was written for another record. */
  idempotency_outcome_unreadable: {
    status: 500,
    title: 'The stored outcome cannot be read',
    detail: 'The request was completed. Do not repeat it; look up its result by other means.',
    retryable: false,
    message: 'The operation completed, but its stored outcome cannot be read.',
    page: 'outcome-unreadable',
  },
  /** The operation is done, but this process has not what it needs to read the outcome, such as the key of the module option `secrets`. */
  idempotency_outcome_unavailable: {
    status: 503,
    title: 'The stored outcome cannot be read now',
    detail: 'The request was completed. Retry the same request with the same key later.',
    retryable: true,
    message: 'The operation completed, but its stored outcome cannot be read now.',
    page: 'outcome-unavailable',
  },
  /** The key was used for a request with other content (contract C31–C41). */
  idempotency_key_reused: {
    status: 422,
    title: 'Idempotency-Key was used for a different request',
    detail: 'Use a new key for a new operation; retry with unchanged content.',
    retryable: false,
    message: 'The idempotency key was already used with another payload.',
    page: 'key-reused',
  },
  /** The caller has as many operations running in this process as `limits.maxAttemptsPerCaller` allows. */
  idempotency_too_many_attempts: {
    status: 429,
    title: 'Too many operations of this caller are running',
    detail: 'Nothing was executed. Retry the same request with the same key later.',
    retryable: true,
    message: 'Too many operations of this caller are running.',
    page: 'too-many-attempts',
  },
  /** An option of the operation throws or returns an invalid value; the service's log names it. */
  idempotency_options_invalid: {
    status: 500,
    title: 'The operation is misconfigured',
    detail: 'Nothing was executed. Retry the same request with the same key later.',
    retryable: true,
    page: 'misconfigured',
  },
  /** The store is unavailable: nothing was executed, or the outcome could not be stored (contract C87). */
  idempotency_store_unavailable: {
    status: 503,
    title: 'Idempotency store is unavailable',
    detail: 'Retry the same request with the same key later.',
    retryable: true,
    message: 'The idempotency store is unavailable.',
    page: 'store-unavailable',
  },
  /** The operation's transaction was rolled back after a serialization failure or deadlock with another one. */
  idempotency_transaction_conflict: {
    status: 503,
    title: 'The transaction met a conflict',
    detail: 'Nothing was changed. Retry the same request with the same key later.',
    retryable: true,
    message: 'The transaction conflicted with a concurrent one and was rolled back.',
    page: 'transaction-conflict',
  },
  /** The process is shutting down and starts no more operations. */
  idempotency_shutting_down: {
    status: 503,
    title: 'The service is shutting down',
    detail: 'Retry the same request with the same key later.',
    retryable: true,
    message: 'The process is shutting down.',
    page: 'shutting-down',
  },
} as const satisfies Record<string, Rejection>;

export type RejectionCode = keyof typeof REJECTIONS;
