import { IdempotencyEvents, IdempotencyHealth, type IdempotencyStore } from 'nestjs-idempotency';

type Source = ConstructorParameters<typeof IdempotencyHealth>[0];

/** The health check of a store, without an application. */
export function healthOf(
  store: IdempotencyStore,
  changes: Partial<Omit<Source, 'store'>> = {},
): IdempotencyHealth {
  return new IdempotencyHealth({
    store,
    events: new IdempotencyEvents(),
    inProgress: () => ({ running: 0, waiting: 0 }),
    breaker: () => undefined,
    ...changes,
  });
}
