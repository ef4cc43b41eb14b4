import { HttpException, IntrinsicException } from '@nestjs/common';
import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import {
  FailureReplayedError,
  IdempotencyOptionsError,
  OperationRejectedError,
  ValueNotStorableError,
} from '../../core/errors/errors.js';
import type { ThrownValues } from '../call/outcome-format.js';

/** An error for the client: GraphQL copies its `extensions`, and Nest does not log it, as with HTTP's exceptions. */
class FieldError extends IntrinsicException {
  override readonly name = 'FieldError';

  constructor(
    message: string,
    readonly extensions: Readonly<Record<string, unknown>>,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** For exception filters, which recognise the library's errors by it. */
  get code(): unknown {
    return this.extensions.code;
  }
}

/** The error that a client gets: the library's own with their stable code, any other unchanged. */
export function toFieldError(error: unknown): unknown {
  if (error instanceof OperationRejectedError) {
    const { code, message, retryAfterMs } = error;
    const extensions = { code, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    return new FieldError(message, extensions, { cause: error });
  }
  if (error instanceof ContentNotComparableError || error instanceof FailureReplayedError) {
    return new FieldError(error.message, { code: error.code }, { cause: error });
  }
  // A mistake in the resolver or an option, which Nest has to log.
  if (error instanceof ValueNotStorableError || error instanceof IdempotencyOptionsError) {
    return Object.assign(error, { extensions: { code: error.code } });
  }
  return error;
}

type Extensions = Readonly<Record<string, unknown>>;

/** An exception of Nest's, whose status and response its drivers send to clients. */
interface KeptException {
  readonly status: number;
  readonly response: string | object;
  readonly message: string;
}

/** A `GraphQLError`, or any error with its `extensions`. */
interface KeptError {
  readonly message: string;
  readonly extensions: Extensions;
}

/** Stores a resolver's errors for clients. Others replay only the failure: an application may hide their messages. */
export const KEPT_ERRORS: ThrownValues = {
  valueOf(error) {
    const value = keptException(error) ?? keptError(error);
    return value && { value };
  },
  errorOf(value) {
    const kept = value as KeptException | KeptError;
    if ('extensions' in kept) return new FieldError(kept.message, kept.extensions);
    const { response, status, message } = kept;
    return Object.assign(new HttpException(response, status), { message });
  },
};

function keptException(error: unknown): KeptException | undefined {
  if (!(error instanceof HttpException)) return undefined;
  return { status: error.getStatus(), response: error.getResponse(), message: error.message };
}

function keptError(error: unknown): KeptError | undefined {
  if (!(error instanceof Error) || !('extensions' in error)) return undefined;
  const { message, extensions } = error;
  return typeof extensions === 'object' && extensions !== null
    ? { message, extensions: extensions as Extensions }
    : undefined;
}
