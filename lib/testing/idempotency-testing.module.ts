import { Module, type DynamicModule } from '@nestjs/common';
import { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { IdempotencyEvents } from '../core/record/idempotency-events.js';
import type { Clock } from '../core/util/clock.js';
import { IdempotencyLifecycle } from '../nest/idempotency-lifecycle.js';
import { IdempotencyModule } from '../nest/idempotency.module.js';
import { IdempotencyService } from '../nest/idempotency.service.js';
import { IdempotentMethods } from '../nest/idempotent-methods.js';
import {
  resolveOptions,
  type IdempotencyModuleOptions,
} from '../nest/options/idempotency-options.js';
import {
  CLOCK,
  IDEMPOTENCY_MODULE_OPTIONS,
  type IdempotencyModuleExtras,
} from '../nest/options/idempotency.module-definition.js';
import { HandlerTransports } from '../nest/registry/handler-transports.js';
import { RabbitMqServers } from '../nest/registry/rabbitmq-servers.js';
import { memoryStore } from '../stores/memory/memory-idempotency-store.js';
import { DrivenClock } from './driven-clock.js';
import { IdempotencyTestClock } from './idempotency-test-clock.js';
import { IdempotencyTestRecords, TestStore } from './idempotency-test-records.js';
import { PassThrough } from './pass-through.js';

/** Options of `IdempotencyModule.forRoot` without `store`. */
export type IdempotencyTestingOptions = Omit<IdempotencyModuleOptions, 'store'> &
  IdempotencyModuleExtras;

/** Replaces `IdempotencyModule.forRoot(…)` in tests, with the same providers. */
@Module({})
export class IdempotencyTestingModule {
  /**
   * Turns protection off: all decorators and `IdempotencyService` work, no key is required, nothing is stored or
   * replayed. The context of each execution is unprotected and has a random key.
   * @param options - may be those of the application. `isGlobal`, `service`, `unitOfWork` and `transaction` count: an
   *   operation with `transaction` runs in a transaction of `unitOfWork`, without a record. Without `unitOfWork` it runs
   *   without a transaction, and hooks of `onCommitted` are called when it succeeds.
   */
  static passThrough(options: IdempotencyTestingOptions = {}): DynamicModule {
    const { isGlobal = true, ...settings } = options;
    const module = IdempotencyModule.forRoot({ store: memoryStore(), isGlobal });
    return withProviders(module, [
      {
        provide: PassThrough,
        inject: [IdempotencyEvents],
        useFactory: (events: IdempotencyEvents) => new PassThrough(settings, events),
      },
      { provide: HandlerTransports, useExisting: PassThrough },
      { provide: IdempotentMethods, useExisting: PassThrough },
      {
        provide: IdempotencyService,
        inject: [PassThrough],
        useFactory: (passThrough: PassThrough) => passThrough.service(),
      },
      // It would check options, open the store and watch signals.
      { provide: IdempotencyLifecycle, useValue: {} },
      { provide: RabbitMqServers, useValue: {} },
    ]);
  }

  /**
   * Protects as the application does, with records in memory, separate for each application and shown by
   * {@link IdempotencyTestRecords}. {@link IdempotencyTestClock} moves its time.
   * @param options - those of the application, without `transaction`s, which need a database.
   * @throws {@link IdempotencyOptionsError} at the start, for invalid options.
   */
  static inMemory(options: IdempotencyTestingOptions = {}): DynamicModule {
    const { isGlobal = true, isOutermost, ...moduleOptions } = options;
    const module = IdempotencyModule.forRootAsync({
      isGlobal,
      ...(isOutermost !== undefined && { isOutermost }),
      inject: [CLOCK],
      useFactory: (clock: Clock) => ({ ...moduleOptions, store: new TestStore(clock) }),
    });
    return withProviders(
      module,
      [
        { provide: CLOCK, useFactory: () => new DrivenClock() },
        {
          provide: IdempotencyTestClock,
          inject: [CLOCK, IdempotencyEngine],
          useFactory: (clock: DrivenClock, engine: IdempotencyEngine) =>
            new IdempotencyTestClock(clock, engine),
        },
        {
          provide: IdempotencyTestRecords,
          inject: [IDEMPOTENCY_MODULE_OPTIONS, IdempotencyEvents, IdempotencyEngine],
          useFactory: (
            options: IdempotencyModuleOptions,
            events: IdempotencyEvents,
            engine: IdempotencyEngine,
          ) =>
            new IdempotencyTestRecords(
              options.store as TestStore,
              resolveOptions('call', options).outcome.codec,
              events,
              engine,
            ),
        },
      ],
      [IdempotencyTestClock, IdempotencyTestRecords],
    );
  }
}

/** The module's own providers come first, since the last one of a token counts. */
function withProviders(
  module: DynamicModule,
  providers: NonNullable<DynamicModule['providers']>,
  exports: NonNullable<DynamicModule['exports']> = [],
): DynamicModule {
  return {
    ...module,
    providers: [...(module.providers ?? []), ...providers],
    exports: [...(module.exports ?? []), ...exports],
  };
}
