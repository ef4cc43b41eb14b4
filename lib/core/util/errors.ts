/** Stable codes of every error that this library throws or answers with. */
export type IdempotencyErrorCode =
  | 'idempotency_key_missing'
  | 'idempotency_key_invalid'
  | 'idempotency_caller_unknown'
  | 'idempotency_key_reused'
  | 'idempotency_in_progress'
  | 'idempotency_response_not_kept'
  | 'idempotency_outcome_unknown'
  | 'idempotency_content_invalid'
  | 'idempotency_shutting_down'
  | 'idempotency_store_unavailable'
  | 'idempotency_store_outcome_unknown'
  | 'idempotency_store_reply_mismatched'
  | 'idempotency_store_misconfigured'
  | 'idempotency_options_invalid'
  | 'idempotency_value_not_storable'
  | 'idempotency_failure_replayed'
  | 'idempotency_no_context'
  | 'idempotency_no_transaction'
  | 'idempotency_transaction_conflict';

/**
 * Base of the library's errors. Tell them apart by `code`: it is stable, while `instanceof` fails across
 * two installed copies of the package. A message never holds a key, a caller or a body.
 */
export abstract class IdempotencyError extends Error {
  abstract override readonly name: string;
  abstract readonly code: IdempotencyErrorCode;
}

/** Whether `error` comes from this library, in whichever copy of it. */
export function isIdempotencyError(error: unknown): error is IdempotencyError {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code.startsWith('idempotency_')
  );
}

/** Whether `error` is the library's own with this code, in whichever copy of it. */
export function hasCode(error: unknown, code: IdempotencyErrorCode): boolean {
  return isIdempotencyError(error) && error.code === code;
}

/** Whether the store itself answered, and refused: see {@link StoreErrorOptions.isRejection}. */
export function isRejection(error: unknown): boolean {
  return isIdempotencyError(error) && 'isRejection' in error && error.isRejection === true;
}

/** What was thrown, as an error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error('The store failed.', { cause: thrown });
}

/** An option or a decorated handler cannot work; stops the start. */
export class IdempotencyOptionsError extends IdempotencyError {
  override readonly name = 'IdempotencyOptionsError';
  readonly code = 'idempotency_options_invalid';
}

/** What a store may say of its failure besides the cause. */
export interface StoreErrorOptions extends ErrorOptions {
  /**
   * Whether the store itself answered, and refused the command: short of memory, say. The circuit breaker
   * does not count it, for the store is there.
   * @defaultValue false
   */
  readonly isRejection?: boolean;
}

/** The store did not execute the command: it may be sent again at any time. */
export class StoreUnavailableError extends IdempotencyError {
  override readonly name = 'StoreUnavailableError';
  readonly code = 'idempotency_store_unavailable';
  /** See {@link StoreErrorOptions.isRejection}. */
  readonly isRejection: boolean;

  constructor(message?: string, options?: StoreErrorOptions) {
    super(message, options);
    this.isRejection = options?.isRejection ?? false;
  }
}

/** Nobody knows what became of the command: it may have been executed, or may still be. */
export class StoreOutcomeUnknownError extends IdempotencyError {
  override readonly name = 'StoreOutcomeUnknownError';
  readonly code = 'idempotency_store_outcome_unknown';
  /** See {@link StoreErrorOptions.isRejection}: what it refused last; an earlier copy may have been executed. */
  readonly isRejection: boolean;

  constructor(message?: string, options?: StoreErrorOptions) {
    super(message, options);
    this.isRejection = options?.isRejection ?? false;
  }
}

/**
 * The reply that came in the command's place belongs to another command, and was not read: nobody knows what became
 * of the command. The connection was ended, the next one is in step again.
 */
export class StoreReplyMismatchedError extends IdempotencyError {
  override readonly name = 'StoreReplyMismatchedError';
  readonly code = 'idempotency_store_reply_mismatched';

  /** @param store - what gave the reply, as an operator calls it. */
  constructor(store: string) {
    super(
      `${store} gave the reply of another command, which was not read; the connection was ended. Find out what lost or repeated a reply on the way: a proxy between the application and the store, or the client's library, which may need an update.`,
    );
  }
}

/** The store refuses the command and will go on refusing it until its set-up is mended. */
export class StoreConfigurationError extends IdempotencyError {
  override readonly name = 'StoreConfigurationError';
  readonly code = 'idempotency_store_misconfigured';
}

/** A value that the outcome would have to hold cannot be written down without loss. */
export class ValueNotStorableError extends IdempotencyError {
  override readonly name = 'ValueNotStorableError';
  readonly code = 'idempotency_value_not_storable';
}

/** The context of an idempotent operation was asked for outside of one. */
export class NoIdempotencyContextError extends IdempotencyError {
  override readonly name = 'NoIdempotencyContextError';
  readonly code = 'idempotency_no_context';
}

/** The transaction of a `transactional` operation was asked for where there is none. */
export class NoTransactionError extends IdempotencyError {
  override readonly name = 'NoTransactionError';
  readonly code = 'idempotency_no_transaction';
}

/** An operation was not run, and there is no outcome to replay either. */
export class OperationRejectedError extends IdempotencyError {
  override readonly name = 'OperationRejectedError';

  /** @param retryAfterMs - `undefined` where a repetition cannot help. */
  constructor(
    message: string,
    readonly code: IdempotencyErrorCode,
    readonly retryAfterMs: number | undefined,
  ) {
    super(message);
  }

  /** Whether the same call with the same key may end otherwise later. */
  get retryable(): boolean {
    return this.retryAfterMs !== undefined;
  }
}

/** The operation failed the first time, and that failure was kept. */
export class FailureReplayedError extends IdempotencyError {
  override readonly name = 'FailureReplayedError';
  readonly code = 'idempotency_failure_replayed';

  /** @param failure - name and message of what the operation threw. */
  constructor(readonly failure: { readonly name: string; readonly message: string }) {
    super('The operation failed the first time; its failure was kept and is replayed.');
  }
}
