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

/**
 * What a caller of a message handler, or a client of a gateway, is told where the layer itself refuses: the error of an
 * `RpcException`, or of a `WsException`.
 */
export interface RejectionPayload {
  readonly status: 'error';
  /** Stable: see {@link IdempotencyErrorCode}. */
  readonly code: string;
  readonly message: string;
  /** When to ask again, in milliseconds; absent where that cannot help. */
  readonly retryAfterMs?: number;
}

/** `RpcException` of `@nestjs/microservices` and `WsException` of `@nestjs/websockets`, alike in what is used here. */
interface ClientException extends Error {
  getError(): string | object;
}

export type ClientExceptionClass = new (error: string | object) => ClientException;

/** Errors in the words of one of Nest's packages: all others, its exception filters tell nobody of. */
export class RejectionMapper implements ThrownValues {
  constructor(private readonly exception: ClientExceptionClass) {}

  /** A refusal in those words; any other error as it is. */
  toClientError(error: unknown): unknown {
    if (error instanceof OperationRejectedError) return this.rejection(error, error.retryAfterMs);
    const isMapped =
      error instanceof ContentNotComparableError || error instanceof ValueNotStorableError;
    return isMapped ? this.rejection(error) : error;
  }

  /** What of a thrown value is kept, so that the same can be thrown again: the error of such an exception. */
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
    text: 'The key was used for another payload.',
  },
  in_progress: {
    code: 'idempotency_in_progress',
    retryable: true,
    text: 'A call with this key is in progress.',
  },
  outcome_unknown: {
    code: 'idempotency_outcome_unknown',
    retryable: false,
    text: 'What a call with this key has done is unknown, and it must not be run again.',
  },
  store_unavailable: {
    code: 'idempotency_store_unavailable',
    retryable: true,
    text: 'The idempotency store is unavailable.',
  },
  conflict: {
    code: 'idempotency_transaction_conflict',
    retryable: true,
    text: 'A concurrent transaction was in the way, and all was rolled back.',
  },
  shutting_down: {
    code: 'idempotency_shutting_down',
    retryable: true,
    text: 'The process is shutting down.',
  },
};

/** Why a call did not run, or has no outcome yet, in the words of the caller. */
export function rejectedResult(
  reason: keyof typeof REJECTIONS,
  { retryAfterMs }: ResolvedProtocolOptions,
): CallResult {
  const { code, retryable, text } = REJECTIONS[reason];
  const error = new OperationRejectedError(text, code, retryable ? retryAfterMs : undefined);
  return { kind: 'rejected', error };
}

/** @param remedy - what to do about it, a sentence. */
export function keyMissing(operation: string, remedy: string): OperationRejectedError {
  return new OperationRejectedError(
    `${operation} was asked for without an idempotency key. ${remedy}`,
    'idempotency_key_missing',
    undefined,
  );
}

export function keyInvalid(operation: string, maxKeyLength: number): OperationRejectedError {
  return new OperationRejectedError(
    `The idempotency key that came for ${operation} is no text of 1 to ${String(maxKeyLength)} characters.`,
    'idempotency_key_invalid',
    undefined,
  );
}

export function callerUnknown(operation: string, remedy: string): OperationRejectedError {
  return new OperationRejectedError(
    `Nobody can say whose idempotency key came for ${operation}. ${remedy}`,
    'idempotency_caller_unknown',
    undefined,
  );
}
