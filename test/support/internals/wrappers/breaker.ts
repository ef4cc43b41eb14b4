export {
  BREAKER_DEFAULTS,
  resolveBreakerOptions,
  type BreakerOptions,
} from '../../../../lib/core/breaker-options.js';
export { BreakerStore } from '../../../../lib/resilience/breaker-store.js';
export type { OpossumConstructor } from '../../../../lib/resilience/load-opossum.js';
