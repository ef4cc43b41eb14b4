import { Logger, Module, type DynamicModule, type InjectionToken } from '@nestjs/common';
import { APP_INTERCEPTOR, DiscoveryModule, ModuleRef } from '@nestjs/core';
import { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { IdempotencyMeter } from '../core/meter/idempotency-meter.js';
import type { Services } from '../core/operation/recovery.js';
import { throwOptionError } from '../core/options/option-checks.js';
import { IdempotencyEvents } from '../core/record/idempotency-events.js';
import { IdempotencyStore } from '../core/store/idempotency-store.js';
import { nodeClock, type Clock } from '../core/util/clock.js';
import { IdempotencyHealth } from '../observability/health/idempotency-health.js';
import { CallTransport } from '../transports/call/call-transport.js';
import { GraphqlTransport } from '../transports/graphql/graphql-transport.js';
import { HttpTransport } from '../transports/http/http-transport.js';
import { MessageTransport } from '../transports/message/message-transport.js';
import { SocketTransport } from '../transports/websocket/socket-transport.js';
import { engineOf } from './engine-of.js';
import { IdempotencyLifecycle } from './idempotency-lifecycle.js';
import { IdempotencyReconciler } from './idempotency-reconciler.js';
import { IdempotencyRecords } from './idempotency-records.js';
import { IdempotencyService } from './idempotency.service.js';
import { IdempotentMethods } from './idempotent-methods.js';
import { copyOfOptions, type IdempotencyModuleOptions } from './options/idempotency-options.js';
import {
  CLOCK,
  ConfigurableModuleClass,
  IDEMPOTENCY_MODULE_OPTIONS,
  IS_OUTERMOST,
  OPTIONS_IN_USE,
  type ASYNC_OPTIONS_TYPE,
  type OPTIONS_TYPE,
} from './options/idempotency.module-definition.js';
import { HandlerRoutes } from './registry/handler-routes.js';
import { HandlerTransports } from './registry/handler-transports.js';
import { HostClasses } from './registry/host-classes.js';
import { OperationNames } from './registry/operation-names.js';
import { RabbitMqServers } from './registry/rabbitmq-servers.js';
import { ResilienceSignals } from './registry/resilience-signals.js';
import { RouteResolver } from './registry/route-resolver.js';
import { OutermostInterceptor } from './outermost.interceptor.js';
import { storeInUse } from './store-in-use.js';

/** For a factory that returned no options: the start then reports what is missing. */
const NO_OPTIONS = {} as IdempotencyModuleOptions;

/**
 * Makes operations safe to retry. Import it once, with `forRoot` or `forRootAsync`, and put `@Idempotent()` on the
 * routes that must not run twice. It is global unless `isGlobal` is false; then it serves the modules that import it,
 * and others may import one with options of their own. Two global ones, or two in one module, stop the start.
 *
 * The provider {@link IdempotencyStore} is the store in use, with its breaker. In tests,
 * `.overrideProvider(IdempotencyStore)` replaces it, without a breaker; the store of the options is never opened.
 * @throws {@link IdempotencyOptionsError} at the start, for invalid options.
 */
@Module({
  imports: [DiscoveryModule],
  providers: [
    // Replaces the providers of forRoot() where the class is imported without it.
    { provide: IDEMPOTENCY_MODULE_OPTIONS, useValue: undefined },
    HandlerRoutes,
    HandlerTransports,
    HostClasses,
    IdempotencyLifecycle,
    IdempotencyService,
    IdempotentMethods,
    OperationNames,
    RabbitMqServers,
    ResilienceSignals,
    RouteResolver,
    { provide: CLOCK, useValue: nodeClock },
    {
      provide: IdempotencyMeter,
      inject: [CLOCK],
      useFactory: (clock: Clock) => {
        const logger = new Logger('Idempotency');
        const warn = (message: string) => {
          logger.warn(message);
        };
        return new IdempotencyMeter(warn, clock);
      },
    },
    {
      provide: IdempotencyEvents,
      inject: [IdempotencyMeter, CLOCK],
      useFactory: (meter: IdempotencyMeter, clock: Clock) => new IdempotencyEvents(meter, clock),
    },
    {
      provide: IdempotencyStore,
      inject: [IDEMPOTENCY_MODULE_OPTIONS, IdempotencyEvents],
      useFactory: (options: IdempotencyModuleOptions | undefined, events: IdempotencyEvents) =>
        storeInUse(options ?? NO_OPTIONS, events),
    },
    {
      provide: OPTIONS_IN_USE,
      inject: [IDEMPOTENCY_MODULE_OPTIONS, IdempotencyStore],
      useFactory: (options: IdempotencyModuleOptions | undefined, store: IdempotencyStore) => ({
        ...copyOfOptions(options ?? NO_OPTIONS),
        store,
      }),
    },
    {
      provide: IdempotencyEngine,
      inject: [OPTIONS_IN_USE, IdempotencyEvents, IdempotencyMeter, CLOCK],
      useFactory: engineOf,
    },
    {
      provide: IdempotencyHealth,
      inject: [IdempotencyEngine, IdempotencyMeter],
      useFactory: (engine: IdempotencyEngine, meter: IdempotencyMeter) =>
        new IdempotencyHealth(engine, meter),
    },
    {
      provide: HttpTransport,
      inject: [IdempotencyEngine, ModuleRef],
      useFactory: (engine: IdempotencyEngine, modules: ModuleRef) =>
        new HttpTransport(engine, servicesOf(modules)),
    },
    {
      provide: CallTransport,
      inject: [IdempotencyEngine, ModuleRef],
      useFactory: (engine: IdempotencyEngine, modules: ModuleRef) =>
        new CallTransport(engine, servicesOf(modules)),
    },
    {
      provide: MessageTransport,
      inject: [CallTransport],
      useFactory: (calls: CallTransport) => new MessageTransport(calls),
    },
    {
      provide: SocketTransport,
      inject: [CallTransport],
      useFactory: (calls: CallTransport) => new SocketTransport(calls),
    },
    {
      provide: GraphqlTransport,
      inject: [CallTransport],
      useFactory: (calls: CallTransport) => new GraphqlTransport(calls),
    },
    {
      provide: IdempotencyReconciler,
      inject: [IdempotencyEngine, OperationNames, ModuleRef, OPTIONS_IN_USE, IdempotencyMeter],
      useFactory: (
        engine: IdempotencyEngine,
        names: OperationNames,
        modules: ModuleRef,
        options: IdempotencyModuleOptions,
        meter: IdempotencyMeter,
      ) => new IdempotencyReconciler(engine, names, servicesOf(modules), options, meter),
    },
    {
      provide: IdempotencyRecords,
      inject: [IdempotencyEngine, OperationNames, OPTIONS_IN_USE],
      useFactory: (
        engine: IdempotencyEngine,
        names: OperationNames,
        options: IdempotencyModuleOptions,
      ) => {
        const logger = new Logger('Idempotency');
        return new IdempotencyRecords(engine, names, options, (entry) => {
          logger.log(`operator ${JSON.stringify(entry)}`);
        });
      },
    },
  ],
  exports: [
    IdempotencyStore,
    IdempotencyService,
    IdempotencyEvents,
    IdempotencyHealth,
    IdempotencyMeter,
    IdempotencyReconciler,
    IdempotencyRecords,
    IdempotentMethods,
    HandlerTransports,
  ],
})
export class IdempotencyModule extends ConfigurableModuleClass {
  /** Takes the options as they are; {@link forRootAsync} takes a factory. */
  static override forRoot(options: typeof OPTIONS_TYPE): DynamicModule {
    return placed(super.forRoot(copyOfOptions(options)), options);
  }

  /** As {@link forRoot}, with `isGlobal` and `isOutermost` beside the factory. */
  static override forRootAsync(options: typeof ASYNC_OPTIONS_TYPE): DynamicModule {
    return placed(super.forRootAsync(options), options);
  }
}

/**
 * Before an application exists: what the module provides depends on it. Where options are missing, the start names the
 * first.
 */
function placed(
  module: DynamicModule,
  options: { readonly isOutermost?: unknown } | undefined,
): DynamicModule {
  const isOutermost = options?.isOutermost;
  if (isOutermost === undefined) return module;
  // The text 'false' of the environment would count as true.
  if (typeof isOutermost !== 'boolean') {
    throwOptionError('isOutermost', 'true or false', isOutermost);
  }
  const providers = [
    ...(module.providers ?? []),
    { provide: IS_OUTERMOST, useValue: isOutermost },
    ...(isOutermost ? [{ provide: APP_INTERCEPTOR, useClass: OutermostInterceptor }] : []),
  ];
  return { ...module, providers };
}

/** Application-wide providers, from whichever module. */
function servicesOf(modules: ModuleRef): Services {
  return {
    get: (token) => modules.get(token as InjectionToken, { strict: false }),
  };
}
