import type { IdempotencyStore } from 'nestjs-idempotency';

/** The name of the service in tests that are not about it, where their store requires one. */
export const SERVICE = 'tests';

/** The module option `service` for a store, if it requires one. */
export function namedFor(store: IdempotencyStore): { readonly service?: string } {
  return store.isShared ? { service: SERVICE } : {};
}
