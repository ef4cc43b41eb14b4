import { Injectable, Logger, type Type } from '@nestjs/common';
import { ApplicationConfig, DiscoveryService } from '@nestjs/core';
import { isSafeRoute } from '../../transports/http/http-route.js';
import { checkInstances } from '../discovery/call-instances.js';
import { idempotentMethods, kindsOf } from '../discovery/handler-kinds.js';
import { isIdempotencyInterceptor, type Handler } from '../discovery/idempotent.metadata.js';
import { checkInstance, checkReached, reportWrappers } from '../discovery/wrapped-handlers.js';
import { HandlerRoutes } from './handler-routes.js';
import { HandlerTransports } from './handler-transports.js';
import { HostClasses, protectedHandlers, type HostClass } from './host-classes.js';
import { OperationNames } from './operation-names.js';
import {
  checkBound,
  checkGlobalInterceptors,
  checkSomethingToProtect,
  sharedBehindGuards,
  shortRetentions,
  warningsOf,
} from './start-checks.js';

/** Resolves every protected handler and method of the application when it starts. */
@Injectable()
export class RouteResolver {
  private readonly logger = new Logger('Idempotency');

  constructor(
    private readonly classes: HostClasses,
    private readonly names: OperationNames,
    private readonly routes: HandlerRoutes,
    private readonly transports: HandlerTransports,
    private readonly application: ApplicationConfig,
    private readonly discovery: DiscoveryService,
  ) {
    for (const { prototype } of classes.all()) reportWrappers(prototype);
  }

  /**
   * Resolves all handlers and methods, so that an invalid one stops the start.
   * @throws {@link IdempotencyOptionsError} for invalid options, handlers that cannot be protected, classes with
   *   nothing to protect, instances that cannot be reached, and operations of the same name.
   */
  resolveAll(): void {
    checkGlobalInterceptors(this.application);
    const all = this.classes.all();
    for (const host of all) {
      checkBound(host);
      checkReached(host.type, host.prototype);
      checkInstance(host.instance, host.prototype);
    }
    for (const host of all) {
      for (const handler of protectedHandlers(host)) {
        if (this.serves(host)) this.add(host.type, handler);
        else this.names.reserveOther(host.type, handler);
      }
    }
    for (const host of all) {
      const entries = idempotentMethods(host.prototype);
      for (const entry of entries) {
        if (this.serves(host)) this.routes.method(host.type, entry);
        else this.names.reserveOther(host.type, entry);
      }
      if (entries.length === 0) checkSomethingToProtect(host);
    }
    checkInstances(this.discovery.getProviders());
    const own = all.filter((host) => this.serves(host));
    const isShared = (type: Type, handler: Handler) => this.isShared(type, handler);
    const warnings = [
      ...warningsOf(own, this.classes),
      ...sharedBehindGuards(own, this.classes, this.application, isShared),
      ...shortRetentions(this.routes.protectedRoutes),
    ];
    for (const warning of warnings) this.logger.warn(warning);
  }

  /** Whether a handler's unknown callers share one scope. Messages have a consumer instead. */
  private isShared(type: Type, handler: Handler): boolean {
    return kindsOf(handler).some((kind) => {
      if (kind === 'rpc' || (kind === 'http' && isSafeRoute(handler))) return false;
      const { enabled, caller } = this.routes[kind](type, handler).options;
      return enabled !== false && caller.anonymous === 'shared';
    });
  }

  private add(type: Type, handler: Handler): void {
    for (const kind of kindsOf(handler)) this.transports.add(kind, type, handler);
  }

  /** Whether the options of this IdempotencyModule apply to a class: another one may be nearer. */
  private serves({ module }: HostClass): boolean {
    const interceptors = [...(module?.injectables ?? [])].filter(
      ([token]) => typeof token === 'function' && isIdempotencyInterceptor(token),
    );
    return interceptors.every(([, { instance }]) => {
      // Undefined where a test has replaced the interceptor.
      const { transports } = (instance ?? {}) as { readonly transports?: HandlerTransports };
      return transports === undefined || transports === this.transports;
    });
  }
}
