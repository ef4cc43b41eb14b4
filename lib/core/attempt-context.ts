import type { Attempt } from './attempt.js';
import type { Claim } from './claim.js';
import { downstreamKey } from './downstream-key.js';
import { NoTransactionError } from './errors.js';
import type { IdempotencyContext } from './idempotency-context.js';

/** The context that `attempt` of `claim` runs in. */
export function contextOf(
  { operation, scope, key, recordKey }: Claim,
  attempt: Attempt,
): IdempotencyContext {
  return {
    operation,
    scope,
    key,
    attempt: attempt.number,
    isTakeover: attempt.isTakeover,
    isProtected: attempt.isProtected,
    fencingToken: attempt.fencingToken,
    get signal() {
      return attempt.signal;
    },
    downstreamKey: (name) => downstreamKey(operation, recordKey, name),
    onCommitted(hook) {
      const { transaction } = attempt;
      if (transaction === undefined) {
        throw new NoTransactionError(
          `onCommitted() was called in ${operation}, which has no transaction: set "transactional" to true there.`,
        );
      }
      transaction.onCommitted(hook);
    },
  };
}
