export { CLOCK } from '../../../../lib/nest/options/idempotency.module-definition.js';
export {
  callLevel,
  handlerLevel,
  OPTIONS,
  resolveModuleOptions,
  resolveOptions,
  type OperationKind,
  type ResolvedOptions,
} from '../../../../lib/nest/options/idempotency-options.js';
