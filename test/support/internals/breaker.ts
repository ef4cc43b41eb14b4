export { BREAKER, type BreakerOptions } from '../../../lib/wrappers/breaker/breaker-options.js';
export { BreakerStore } from '../../../lib/wrappers/breaker/breaker-store.js';
export type { OpossumConstructor } from '../../../lib/wrappers/breaker/circuit.js';
