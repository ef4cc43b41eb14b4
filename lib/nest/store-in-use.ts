import type { IdempotencyEvents } from '../core/record/events.js';
import type { IdempotencyStore } from '../core/store/idempotency-store.js';
import { resolveBreakerOptions } from '../wrappers/breaker/breaker-options.js';
import { BreakerStore } from '../wrappers/breaker/breaker-store.js';
import { loadOpossum } from '../wrappers/breaker/circuit.js';
import {
  resolveEngineOptions,
  resolveOptions,
  type IdempotencyModuleOptions,
} from './options/idempotency-options.js';

/**
 * The store that the options name, with what they put around it: what stands for {@link IdempotencyStore} unless a test
 * has put another one in its place, which then is used as it is.
 *
 * @throws {@link IdempotencyOptionsError} naming option, range and value, or what is not installed.
 */
export async function storeInUse(
  options: IdempotencyModuleOptions,
  events: IdempotencyEvents,
): Promise<IdempotencyStore> {
  resolveEngineOptions(options);
  const breaker = resolveBreakerOptions(options.breaker);
  if (breaker === undefined) return options.store;
  const { commandTimeoutMs } = resolveOptions(options).protocol;
  return new BreakerStore(
    options.store,
    await loadOpossum(),
    { ...breaker, probeTimeoutMs: commandTimeoutMs },
    (event) => {
      events.emit(event);
    },
  );
}
