export {
  resolveModuleOptions,
  resolveOptions,
} from '../../../../lib/nest/options/idempotency-options.js';
