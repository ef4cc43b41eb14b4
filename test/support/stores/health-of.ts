import { IdempotencyHealth, IdempotencyMeter, type IdempotencyStore } from 'nestjs-idempotency';

type Source = ConstructorParameters<typeof IdempotencyHealth>[0];

/** The health check of a store, without an application. */
export function healthOf(
  store: IdempotencyStore,
  changes: Partial<Omit<Source, 'store'>> = {},
  meter = new IdempotencyMeter(),
): IdempotencyHealth {
  return new IdempotencyHealth({ store, running: () => [], waiting: () => [], ...changes }, meter);
}
