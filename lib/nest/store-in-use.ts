import type { IdempotencyEvents } from '../core/record/idempotency-events.js';
import type { IdempotencyStore } from '../core/store/idempotency-store.js';
import { BreakerStore } from '../wrappers/breaker/breaker-store.js';
import { loadOpossum } from '../wrappers/breaker/circuit.js';
import {
  resolveModuleOptions,
  type IdempotencyModuleOptions,
} from './options/idempotency-options.js';

/**
 * The store of the options, with its breaker. A test may override it, as {@link IdempotencyStore}.
 * @throws {@link IdempotencyOptionsError} naming option, range and value, or the package that is not installed.
 */
export async function storeInUse(
  options: IdempotencyModuleOptions,
  events: IdempotencyEvents,
): Promise<IdempotencyStore> {
  const { breaker, storeErrors } = resolveModuleOptions(options);
  if (breaker === false) return options.store;
  return new BreakerStore(
    options.store,
    await loadOpossum(),
    { ...breaker, probeTimeoutMs: storeErrors.commandTimeout },
    (event) => {
      events.emit(event);
    },
  );
}
