import type { ExecutionContext } from '@nestjs/common';
import { ignoreAnswer } from '../../core/util/maybe-async.js';
import type { FailureVerdict, ResolvedMessageOptions } from './message-options.js';

/** What becomes of a message whose handling failed; one that cannot be judged comes again, for that loses nothing. */
export function verdictOn(
  error: unknown,
  context: ExecutionContext,
  onFailure: ResolvedMessageOptions['onFailure'],
): FailureVerdict {
  if (typeof onFailure !== 'function') return onFailure;
  try {
    const verdict: unknown = onFailure(error, context);
    ignoreAnswer('onFailure', verdict);
    return verdict === 'dead-letter' ? 'dead-letter' : 'requeue';
  } catch {
    return 'requeue';
  }
}
