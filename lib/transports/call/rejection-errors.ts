import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import {
  OperationRejectedError,
  rejectionError,
  ValueNotStorableError,
} from '../../core/errors/errors.js';
import type { RejectionCode } from '../../core/errors/rejections.js';
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

/** The result of a call that did not run, or has no outcome yet. */
export function rejectedResult(
  code: RejectionCode,
  { duplicates: { retryAfter: retryAfterMs } }: ResolvedProtocolOptions,
): CallResult {
  return { kind: 'rejected', error: rejectionError(code, { retryAfterMs }) };
}
