export { resolveEngineOptions, resolveOptions } from '../../../../lib/nest/idempotency-options.js';
