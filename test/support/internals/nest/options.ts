export {
  callLevel,
  handlerLevel,
  OPTIONS,
  resolveModuleOptions,
  resolveOptions,
  type OperationKind,
  type ResolvedOptions,
} from '../../../../lib/nest/options/idempotency-options.js';
