import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { IdempotencyModuleOptions } from './idempotency-options.js';

export interface IdempotencyModuleExtras {
  /** Whether every module sees the providers without importing this one. @defaultValue true */
  isGlobal?: boolean;
}

export const {
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN: IDEMPOTENCY_MODULE_OPTIONS,
  OPTIONS_TYPE,
  ASYNC_OPTIONS_TYPE,
} = new ConfigurableModuleBuilder<IdempotencyModuleOptions>({ moduleName: 'Idempotency' })
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createIdempotencyOptions')
  .setExtras<IdempotencyModuleExtras>({ isGlobal: true }, (definition, { isGlobal }) => ({
    ...definition,
    global: isGlobal ?? true,
  }))
  .build();

/** Token of the options with the store in use, which a test may have replaced. */
export const OPTIONS_IN_USE = Symbol('IdempotencyOptionsInUse');

/** Token of the {@link Clock} of the module's engine. */
export const CLOCK = Symbol('IdempotencyClock');
