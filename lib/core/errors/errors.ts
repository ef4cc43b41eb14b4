import { types } from 'node:util';
import { REJECTIONS, type Rejection, type RejectionCode } from './rejections.js';

/** Stable codes of all errors that this library throws or responds with. */
export type IdempotencyErrorCode =
  | RejectionCode
  | 'idempotency_blob_unavailable'
  | 'idempotency_store_outcome_unknown'
  | 'idempotency_store_reply_mismatched'
  | 'idempotency_store_misconfigured'
  | 'idempotency_value_not_storable'
  | 'idempotency_failure_replayed'
  | 'idempotency_no_context'
  | 'idempotency_no_transaction'
  | 'idempotency_audit_unavailable';

/**
 * Base class of the library's errors. Distinguish them by `code`, which is stable: `instanceof` fails across two
 * installed copies of the package. A message never contains a key, a caller or a body.
 */
export abstract class IdempotencyError extends Error {
  abstract override readonly name: string;
  abstract readonly code: IdempotencyErrorCode;
}

/** Whether `error` comes from this library, or from another copy of it. */
export function isIdempotencyError(error: unknown): error is IdempotencyError {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code.startsWith('idempotency_')
  );
}

export function hasCode(error: unknown, code: IdempotencyErrorCode): boolean {
  return isIdempotencyError(error) && error.code === code;
}

export function isRejection(error: unknown): boolean {
  return isIdempotencyError(error) && 'isRejection' in error && error.isRejection === true;
}

export function asError(thrown: unknown): Error {
  // Of another realm, such as a test's, an error is no instance of this one's class.
  return thrown instanceof Error || types.isNativeError(thrown)
    ? thrown
    : new Error('The store failed.', { cause: thrown });
}

/** Any text may be assigned to a code: one that reads like a message may contain data. */
const ERROR_TYPE = /^[\w.:/-]{1,64}$/;

/** The code of an error or, without one, the name of its class. */
export function errorTypeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  try {
    const types: readonly unknown[] = [
      'code' in error && error.code,
      error instanceof Error && error.name,
    ];
    return types.find((type): type is string => typeof type === 'string' && ERROR_TYPE.test(type));
  } catch {
    // A getter of the error throws.
    return undefined;
  }
}

const STORE_ERRORS = [
  'idempotency_store_unavailable',
  'idempotency_store_outcome_unknown',
  'idempotency_store_reply_mismatched',
  'idempotency_store_misconfigured',
] as const;

export const STORE_ERROR_TYPES = [...STORE_ERRORS, '_OTHER'] as const;

/** The codes of a store's errors. `_OTHER`: an error of another kind, such as the database's in a transaction. */
export type StoreErrorType = (typeof STORE_ERROR_TYPES)[number];

export function storeErrorTypeOf(error: unknown): StoreErrorType {
  return STORE_ERRORS.find((code) => hasCode(error, code)) ?? '_OTHER';
}

/** An option or a decorated handler is invalid. Prevents the application from starting. */
export class IdempotencyOptionsError extends IdempotencyError {
  override readonly name = 'IdempotencyOptionsError';
  readonly code = 'idempotency_options_invalid';
}

/** Options of {@link StoreUnavailableError} and {@link StoreOutcomeUnknownError}. */
export interface StoreErrorOptions extends ErrorOptions {
  /**
   * Whether the store replied and rejected the command, such as out of memory. The circuit breaker does not count it.
   * @defaultValue false
   */
  readonly isRejection?: boolean;
}

/** The store did not execute the command. It can be sent again. */
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

/** The store may have executed the command, or may still do so. */
export class StoreOutcomeUnknownError extends IdempotencyError {
  override readonly name = 'StoreOutcomeUnknownError';
  readonly code = 'idempotency_store_outcome_unknown';
  /** See {@link StoreErrorOptions.isRejection}. The store rejected the last send; it may have executed an earlier one. */
  readonly isRejection: boolean;

  constructor(message?: string, options?: StoreErrorOptions) {
    super(message, options);
    this.isRejection = options?.isRejection ?? false;
  }
}

/**
 * A connection returned another command's reply and was closed. The reply was not read, and the next connection is in
 * step. The command may have been executed.
 */
export class StoreReplyMismatchedError extends IdempotencyError {
  override readonly name = 'StoreReplyMismatchedError';
  readonly code = 'idempotency_store_reply_mismatched';

  constructor(store: string) {
    super(
      `${store} sent the reply of another command. The reply was discarded and the connection closed. Check what lost or duplicated a reply: a proxy between the application and the store, or an outdated client library.`,
    );
  }
}

/** The audit of what operators do gave no reply, or rejected an entry: nothing was done. */
export class AuditUnavailableError extends IdempotencyError {
  override readonly name = 'AuditUnavailableError';
  readonly code = 'idempotency_audit_unavailable';

  /** @param cause - what the module option `operator.audit` threw. */
  constructor(cause?: unknown) {
    super(
      'Nothing was done: the function of the module option "operator.audit" failed before the act. Its error is the cause. Act again once it works.',
      { cause },
    );
  }
}

/** The store rejects the command until its configuration is fixed. */
export class StoreConfigurationError extends IdempotencyError {
  override readonly name = 'StoreConfigurationError';
  readonly code = 'idempotency_store_misconfigured';
}

/** The outcome contains a value that cannot be stored without loss. */
export class ValueNotStorableError extends IdempotencyError {
  override readonly name = 'ValueNotStorableError';
  readonly code = 'idempotency_value_not_storable';
}

/** The idempotency context was read outside of an idempotent operation. */
export class NoIdempotencyContextError extends IdempotencyError {
  override readonly name = 'NoIdempotencyContextError';
  readonly code = 'idempotency_no_context';
}

/** The transaction was read outside of an operation with `transaction`. */
export class NoTransactionError extends IdempotencyError {
  override readonly name = 'NoTransactionError';
  readonly code = 'idempotency_no_transaction';
}

/** The operation was not run, and no outcome can be replayed. */
export class OperationRejectedError extends IdempotencyError {
  override readonly name = 'OperationRejectedError';

  /** @param retryAfterMs - `undefined` where a retry cannot succeed. */
  constructor(
    message: string,
    readonly code: IdempotencyErrorCode,
    readonly retryAfterMs: number | undefined,
  ) {
    super(message);
  }

  /** Whether a retry with the same key can succeed later. */
  get retryable(): boolean {
    return this.retryAfterMs !== undefined;
  }
}

interface RejectionDetails {
  /** Fills the message's `{operation}`. */
  readonly operation?: string;
  /** Fills the message's `{form}`: what a key must be. */
  readonly form?: string;
  /** Fills the message's `{problem}`: what is wrong with a stored value, a predicate. */
  readonly problem?: string;
  /** Replaces the table's. */
  readonly remedy?: string;
  /** Ignored where a retry cannot help. */
  readonly retryAfterMs?: number;
}

/** The error of a rejection, for the callers of methods, messages and fields. */
export function rejectionError(
  code: RejectionCode,
  details: RejectionDetails,
): OperationRejectedError {
  const { title, message = `${title}.`, retryable, ...rejection }: Rejection = REJECTIONS[code];
  const { remedy = rejection.remedy, retryAfterMs, ...values } = details;
  const text = message.replace(
    /\{(\w+)\}/g,
    (_, name: keyof typeof values) => values[name] ?? name,
  );
  return new OperationRejectedError(
    remedy === undefined ? text : `${text} ${remedy}`,
    code,
    retryable ? retryAfterMs : undefined,
  );
}

/** The operation failed, and the stored failure is replayed. */
export class FailureReplayedError extends IdempotencyError {
  override readonly name = 'FailureReplayedError';
  readonly code = 'idempotency_failure_replayed';

  constructor(readonly failure: { readonly name: string; readonly message: string }) {
    super('The operation failed. This is a replay of its stored failure; see "failure".');
  }
}
