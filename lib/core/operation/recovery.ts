import type { IdempotencyContext } from './idempotency-context.js';

/** The result of a recovery: `'run'` if nothing was done, otherwise what the operation would have returned. */
export type Recovery<Value = unknown> = 'run' | { readonly value: Value };

/** The class or another injection token of a provider. */
export type ServiceToken<Service> = (abstract new (...args: never[]) => Service) | string | symbol;

export interface Services {
  /** @throws if the token has no provider, or a request-scoped one. */
  get<Service = unknown>(token: ServiceToken<Service>): Service;
}

/**
 * Looks up in the business data what an earlier attempt, whose outcome is unknown, has done; with
 * `lease.recoverOn: 'always'`, what was done before this attempt at all. Called instead of the operation. Its errors go
 * to the caller and are never kept, whatever the outcome policy: the next attempt looks up again. The reconciler, which
 * has no caller, emits `recovery_failed`.
 * @param services - the application's providers, such as a repository or the client of a payment provider.
 */
export type Recover = (
  context: IdempotencyContext,
  services: Services,
) => Recovery | Promise<Recovery>;
