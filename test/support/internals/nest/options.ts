export {
  resolveEngineOptions,
  resolveOptions,
} from '../../../../lib/nest/options/idempotency-options.js';
