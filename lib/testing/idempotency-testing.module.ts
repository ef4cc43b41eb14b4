import { Module, type DynamicModule } from '@nestjs/common';
import { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { IdempotencyEvents } from '../core/record/events.js';
import { IdempotencyLifecycle } from '../nest/idempotency-lifecycle.js';
import { IdempotencyModule } from '../nest/idempotency.module.js';
import { IdempotencyService } from '../nest/idempotency.service.js';
import { IdempotentMethods } from '../nest/idempotent-methods.js';
import {
  resolveOptions,
  type IdempotencyModuleOptions,
} from '../nest/options/idempotency-options.js';
import {
  IDEMPOTENCY_MODULE_OPTIONS,
  type IdempotencyModuleExtras,
} from '../nest/options/idempotency.module-definition.js';
import { RabbitMqServers } from '../nest/registry/rabbitmq-servers.js';
import { Transports } from '../nest/transports.js';
import { memoryStore } from '../stores/memory/memory-idempotency-store.js';
import { IdempotencyTestRecords, TestStore } from './idempotency-test-records.js';
import { PassThrough } from './pass-through.js';

/** What `IdempotencyModule.forRoot` takes, but for its `store`. */
export type IdempotencyTestingOptions = Omit<IdempotencyModuleOptions, 'store'> &
  IdempotencyModuleExtras;

/** Stands in the place of `IdempotencyModule.forRoot(…)` in tests, with the same providers. */
@Module({})
export class IdempotencyTestingModule {
  /**
   * Protects nothing: decorators, their parameter decorators and `IdempotencyService` work, no key is needed, nothing is
   * stored, nothing replayed. The context of every run says that it is unprotected, and has a key of its own.
   *
   * @param options - may be those of the application. `isGlobal`, `unitOfWork`, `transactional` and `isolation` count:
   * operations that are `transactional` run in a transaction of `unitOfWork`, without a record; where there is none,
   * they run without a transaction, and what they hand to `onCommitted` is called when they have succeeded.
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
      { provide: Transports, useExisting: PassThrough },
      { provide: IdempotentMethods, useExisting: PassThrough },
      {
        provide: IdempotencyService,
        inject: [PassThrough],
        useFactory: (passThrough: PassThrough) => passThrough.service(),
      },
      // What they would check, open and watch is not used.
      { provide: IdempotencyLifecycle, useValue: {} },
      { provide: RabbitMqServers, useValue: {} },
    ]);
  }

  /**
   * Protects as the application does, with its records in memory: new ones for every application that is made, which
   * {@link IdempotencyTestRecords} shows.
   *
   * @param options - those of the application. None of its operations may be `transactional`: there is no database that
   * records in memory could be committed with.
   * @throws {@link IdempotencyOptionsError} at the start, for options that cannot work.
   */
  static inMemory(options: IdempotencyTestingOptions = {}): DynamicModule {
    const { isGlobal = true, ...own } = options;
    const module = IdempotencyModule.forRootAsync({
      isGlobal,
      useFactory: () => ({ ...own, store: new TestStore() }),
    });
    return withProviders(
      module,
      [
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
              resolveOptions(options).codec,
              events,
              engine,
            ),
        },
      ],
      [IdempotencyTestRecords],
    );
  }
}

/** Of two providers of one token the later one counts: the module's own come first. */
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
