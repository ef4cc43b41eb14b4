import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { IdempotencyModuleOptions } from './idempotency-options.js';

export interface IdempotencyModuleExtras {
  /** Whether every module sees the providers without importing this one. @defaultValue true */
  isGlobal?: boolean;
  /**
   * Whether the interceptor of `@Idempotent()` is the application's outermost one, as an `APP_INTERCEPTOR` of this module:
   * then a circuit breaker or a bulkhead of another global interceptor does not see replays and rejected duplicates.
   * Nest's order counts: interceptors of modules that are imported before this one, and those of the root module's own
   * providers, stay outside, and the start warns of them. `false` says that the place on the route is meant.
   * @defaultValue none: on the route, inside of global interceptors
   * @throws {@link IdempotencyOptionsError} unless it is a boolean, and at the start if the interceptor of
   *   `@nestjs/resilience` is outside.
   */
  isOutermost?: boolean;
}

export const {
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN: IDEMPOTENCY_MODULE_OPTIONS,
  OPTIONS_TYPE,
  ASYNC_OPTIONS_TYPE,
} = new ConfigurableModuleBuilder<IdempotencyModuleOptions>({ moduleName: 'Idempotency' })
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createIdempotencyOptions')
  .setExtras<IdempotencyModuleExtras>(
    { isGlobal: true, isOutermost: undefined as unknown as boolean },
    (definition, { isGlobal }) => ({ ...definition, global: isGlobal ?? true }),
  )
  .build();

/** Token of `isOutermost`; without a provider where it is not given. */
export const IS_OUTERMOST = Symbol('IdempotencyIsOutermost');

/** Token of the options with the store in use, which a test may have replaced. */
export const OPTIONS_IN_USE = Symbol('IdempotencyOptionsInUse');

/** Token of the {@link Clock} of the module's engine. */
export const CLOCK = Symbol('IdempotencyClock');
