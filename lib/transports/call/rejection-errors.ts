import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import type { RejectionReason } from '../../core/record/events.js';
import {
  OperationRejectedError,
  ValueNotStorableError,
  type IdempotencyErrorCode,
} from '../../core/util/errors.js';
import type { CallResult } from './call.js';
import type { ThrownValues } from './outcome-format.js';

/** The library's rejection, as a client of a message handler or gateway gets it: in an `RpcException` or `WsException`. */
export interface RejectionPayload {
  readonly status: 'error';
  /** Stable: see {@link IdempotencyErrorCode}. */
  readonly code: string;
  readonly message: string;
  /** When to retry, in milliseconds; absent where a retry cannot help. */
  readonly retryAfterMs?: number;
}

/** What `RpcException` of `@nestjs/microservices` and `WsException` of `@nestjs/websockets` have in common. */
interface ClientException extends Error {
  getError(): string | object;
}

export type ClientExceptionClass = new (error: string | object) => ClientException;

/** Maps rejections to the exception of one of Nest's packages, whose filters hide all other errors from clients. */
export class RejectionMapper implements ThrownValues {
  constructor(private readonly exception: ClientExceptionClass) {}

  /** Maps a rejection to that exception; returns any other error unchanged. */
  toClientError(error: unknown): unknown {
    if (error instanceof OperationRejectedError) return this.rejection(error, error.retryAfterMs);
    const isMapped =
      error instanceof ContentNotComparableError || error instanceof ValueNotStorableError;
    return isMapped ? this.rejection(error) : error;
  }

  /** What is stored of such an exception, so that a replay throws the same. */
  valueOf(error: unknown): { readonly value: unknown } | undefined {
    return error instanceof this.exception ? { value: error.getError() } : undefined;
  }

  errorOf(value: unknown): unknown {
    return new this.exception(value as string | object);
  }

  private rejection(
    error: OperationRejectedError | ContentNotComparableError | ValueNotStorableError,
    retryAfterMs?: number,
  ): ClientException {
    const { code, message } = error;
    const rejection: RejectionPayload = {
      status: 'error',
      code,
      message,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    };
    return Object.assign(new this.exception(rejection), { cause: error });
  }
}

const REJECTIONS: Record<
  RejectionReason | 'conflict',
  { code: IdempotencyErrorCode; retryable: boolean; text: string }
> = {
  mismatch: {
    code: 'idempotency_key_reused',
    retryable: false,
    text: 'The idempotency key was already used with another payload.',
  },
  in_progress: {
    code: 'idempotency_in_progress',
    retryable: true,
    text: 'A call with this idempotency key is still in progress.',
  },
  outcome_unknown: {
    code: 'idempotency_outcome_unknown',
    retryable: false,
    text: 'The outcome of a call with this idempotency key is unknown. Check its effect before you use a new key.',
  },
  store_unavailable: {
    code: 'idempotency_store_unavailable',
    retryable: true,
    text: 'The idempotency store is unavailable.',
  },
  conflict: {
    code: 'idempotency_transaction_conflict',
    retryable: true,
    text: 'The transaction conflicted with a concurrent one and was rolled back.',
  },
  shutting_down: {
    code: 'idempotency_shutting_down',
    retryable: true,
    text: 'The process is shutting down.',
  },
};

/** The result of a call that did not run, or has no outcome yet. */
export function rejectedResult(
  reason: keyof typeof REJECTIONS,
  { retryAfterMs }: ResolvedProtocolOptions,
): CallResult {
  const { code, retryable, text } = REJECTIONS[reason];
  const error = new OperationRejectedError(text, code, retryable ? retryAfterMs : undefined);
  return { kind: 'rejected', error };
}

export function keyMissing(operation: string, remedy: string): OperationRejectedError {
  return new OperationRejectedError(
    `${operation} requires an idempotency key. ${remedy}`,
    'idempotency_key_missing',
    undefined,
  );
}

export function keyInvalid(operation: string, maxKeyLength: number): OperationRejectedError {
  return new OperationRejectedError(
    `The idempotency key of ${operation} must be a string of 1–${String(maxKeyLength)} characters.`,
    'idempotency_key_invalid',
    undefined,
  );
}

export function callerUnknown(operation: string, remedy: string): OperationRejectedError {
  return new OperationRejectedError(
    `Cannot determine the caller of ${operation}. ${remedy}`,
    'idempotency_caller_unknown',
    undefined,
  );
}
