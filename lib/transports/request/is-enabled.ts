import type { ExecutionContext } from '@nestjs/common';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { forget } from '../../core/util/maybe-async.js';
import { askOption } from './ask-option.js';
import type { ResolvedRequestOptions } from './request-options.js';

/**
 * Whether a request is to be protected at all.
 *
 * @throws {@link IdempotencyOptionsError} when the function given as the option gives no answer.
 */
export function isEnabled(
  context: ExecutionContext,
  operation: string,
  { enabled }: Pick<ResolvedRequestOptions, 'enabled'>,
): boolean {
  const answer: unknown =
    typeof enabled === 'function'
      ? askOption('enabled', operation, () => enabled(context))
      : enabled;
  if (typeof answer === 'boolean') return answer;
  forget(answer);
  throw new IdempotencyOptionsError(
    `The function given as the option "enabled" of ${operation} must answer true or false, at once.`,
  );
}
