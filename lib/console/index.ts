export {
  IdempotencyConsoleModule,
  type IdempotencyConsoleAsyncOptions,
  type IdempotencyConsolePlace,
} from './idempotency-console.module.js';
export type {
  ConsoleOperator,
  ConsolePermission,
  IdempotencyConsoleOptions,
} from './console-options.js';
