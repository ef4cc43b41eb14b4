import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import { OperationRejectedError, ValueNotStorableError } from '../../core/util/errors.js';
import type { ThrownValues } from './outcome-format.js';

/**
 * What a caller of a message handler, or a client of a gateway, is told where the layer itself refuses: the error of an
 * `RpcException`, or of a `WsException`.
 */
export interface ToldRejection {
  readonly status: 'error';
  /** Stable: see {@link IdempotencyErrorCode}. */
  readonly code: string;
  readonly message: string;
  /** When to ask again, in milliseconds; absent where that cannot help. */
  readonly retryAfterMs?: number;
}

/** `RpcException` of `@nestjs/microservices` and `WsException` of `@nestjs/websockets`, alike in what is used here. */
interface ToldException extends Error {
  getError(): string | object;
}

export type ToldExceptionClass = new (error: string | object) => ToldException;

/** Errors in the words of one of Nest's packages: all others, its exception filters tell nobody of. */
export class ToldFailures implements ThrownValues {
  constructor(private readonly exception: ToldExceptionClass) {}

  /** A refusal in those words; any other error as it is. */
  refusal(error: unknown): unknown {
    if (error instanceof OperationRejectedError) return this.rejection(error, error.retryAfterMs);
    const isTold =
      error instanceof ContentNotComparableError || error instanceof ValueNotStorableError;
    return isTold ? this.rejection(error) : error;
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
  ): ToldException {
    const { code, message } = error;
    const rejection: ToldRejection = {
      status: 'error',
      code,
      message,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    };
    return Object.assign(new this.exception(rejection), { cause: error });
  }
}
