export {
  readClass,
  type ClassFacts,
  type HandlerFacts,
} from '../../../lib/nest/discovery/handler-facts.js';
export * as maybeAsync from '../../../lib/core/util/maybe-async.js';
export * as thisContext from '../../../lib/core/util/this-context.js';
export { callInTurn } from '../../../lib/nest/interceptor-chain.js';
export { useFastPath } from '../../../lib/nest/fast-path.js';
export { IdempotencyInterceptor } from '../../../lib/nest/idempotency.interceptor.js';
export { LogReporter } from '../../../lib/nest/log-reporter.js';
export { CLOCK } from '../../../lib/nest/options/idempotency.module-definition.js';
export {
  callLevel,
  handlerLevel,
  OPTIONS,
  resolveModuleOptions,
  resolveOptions,
  type OperationKind,
  type ResolvedOptions,
} from '../../../lib/nest/options/idempotency-options.js';
export { methodRoute } from '../../../lib/nest/registry/method-route.js';
export {
  check,
  CLASS_CHECKS,
  HANDLER_CHECKS,
  ROUTE_CHECKS,
  warningsOf,
  type ProtectedRoute,
} from '../../../lib/nest/registry/start-checks.js';
