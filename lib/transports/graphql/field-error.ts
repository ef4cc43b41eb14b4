import { IntrinsicException } from '@nestjs/common';
import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import {
  FailureReplayedError,
  OperationRejectedError,
  ValueNotStorableError,
} from '../../core/util/errors.js';

/**
 * An error that answers a client: GraphQL's errors take over its `extensions`. Nest writes no log of exceptions of its
 * kind, as with HTTP's.
 */
export class FieldError extends IntrinsicException {
  override readonly name = 'FieldError';

  constructor(
    message: string,
    readonly extensions: Readonly<Record<string, unknown>>,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** For exception filters, which tell the library's errors apart by it. */
  get code(): unknown {
    return this.extensions.code;
  }
}

/** What a client is told of an error: the library's own with their stable code, all others as they are. */
export function toldError(error: unknown): unknown {
  if (error instanceof OperationRejectedError) {
    const { code, message, retryAfterMs } = error;
    const extensions = { code, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    return new FieldError(message, extensions, { cause: error });
  }
  if (error instanceof ContentNotComparableError || error instanceof FailureReplayedError) {
    return new FieldError(error.message, { code: error.code }, { cause: error });
  }
  // The resolver's mistake, which belongs into the log.
  if (error instanceof ValueNotStorableError) {
    return Object.assign(error, { extensions: { code: error.code } });
  }
  return error;
}
