import { IdempotencyOptionsError } from '../util/errors.js';
import type { Attempt } from './attempt.js';
import type { IdempotencyContext } from './idempotency-context.js';

/** What a recovery finds out: nothing was done, so run the operation, or what the operation would have returned. */
export type Recovery<Value = unknown> = 'run' | { readonly value: Value };

/** The class of a provider, or another token that it is known by. */
export type ServiceToken<Service> = (abstract new (...args: never[]) => Service) | string | symbol;

/** The application's providers. */
export interface Services {
  /** @throws where there is none for the token, or one of a request's own scope. */
  get<Service = unknown>(token: ServiceToken<Service>): Service;
}

/**
 * Looks into the business data for what an earlier attempt of the same key has done, whose fate is unknown. It
 * stands in the operation's place. What it throws goes to the caller and is never kept, whatever the outcome
 * policy says: a look that failed has found nothing out, and the next attempt looks again. The reconciler, which has no caller,
 * tells of it by the event `recovery_failed`.
 *
 * @param services - the application's providers, for the repository or the client of a payment provider.
 */
export type Recover = (
  context: IdempotencyContext,
  services: Services,
) => Recovery | Promise<Recovery>;

/** The recovery of one attempt, and `undefined` where there is nothing to recover. */
export function recoveryOf(
  onTakeover: 'run' | 'reject' | Recover,
  attempt: Attempt,
  context: IdempotencyContext,
  services: Services,
): (() => Promise<Recovery>) | undefined {
  if (typeof onTakeover !== 'function' || !attempt.isTakeover) return undefined;
  return async () => {
    const found: unknown = await onTakeover(context, services);
    if (!isRecovery(found)) {
      throw new IdempotencyOptionsError(
        `The function given as the option "onTakeover" of ${context.operation} must answer 'run' or { value }.`,
      );
    }
    if (found !== 'run') attempt.recovered();
    return found;
  };
}

function isRecovery(result: unknown): result is Recovery {
  return result === 'run' || (typeof result === 'object' && result !== null && 'value' in result);
}
