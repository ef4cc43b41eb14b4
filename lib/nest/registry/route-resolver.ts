import { Inject, Injectable, Logger, Optional } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import type { HandlerFacts } from '../discovery/handler-facts.js';
import { reportWrappers } from '../discovery/handler-report.js';
import { isIdempotencyInterceptor } from '../discovery/idempotent.metadata.js';
import { checkInstance, checkInstances } from '../discovery/instances.js';
import { IS_OUTERMOST } from '../options/idempotency.module-definition.js';
import { HandlerRoutes } from './handler-routes.js';
import { HandlerTransports } from './handler-transports.js';
import { HostClasses, type HostClass } from './host-classes.js';
import { OperationNames } from './operation-names.js';
import {
  boundAlone,
  check,
  CLASS_CHECKS,
  HANDLER_CHECKS,
  placeWarnings,
  resilienceOutside,
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
    private readonly discovery: DiscoveryService,
    @Optional() @Inject(IS_OUTERMOST) private readonly isOutermost?: boolean,
  ) {
    for (const type of classes.types()) reportWrappers(type.prototype as object);
  }

  /**
   * Resolves all handlers and methods, so that an invalid one stops the start.
   * @throws {@link IdempotencyOptionsError} for invalid options, handlers that cannot be protected, classes with
   *   nothing to protect, instances that cannot be reached, and operations of the same name.
   */
  resolveAll(): void {
    const { outside, inside = [] } = this.classes.globals();
    if ([...outside, ...inside].some(isIdempotencyInterceptor)) {
      throw new IdempotencyOptionsError(boundAlone('the whole application'));
    }
    if (this.isOutermost === true) check(outside, [resilienceOutside]);
    const all = this.classes.scan();
    for (const host of all) {
      check(host, CLASS_CHECKS);
      for (const facts of host.methods) check(facts, HANDLER_CHECKS);
      for (const { instance } of host.hosts) checkInstance(instance, host.type.prototype);
    }
    const own = all.filter((host) => this.serves(host));
    for (const host of all) {
      for (const facts of host.methods) {
        if (!facts.isProtected || !facts.reports) continue;
        if (own.includes(host)) this.resolve(facts);
        else this.names.reserveOther(facts);
      }
    }
    checkInstances(this.discovery.getProviders());
    const { protectedRoutes } = this.routes;
    for (const warning of [
      ...warningsOf(own, protectedRoutes),
      ...placeWarnings(this.isOutermost, outside, protectedRoutes),
      ...[this.transports.signals?.mistake ?? []].flat(),
    ]) {
      this.logger.warn(warning);
    }
  }

  private resolve({ type, handler, kinds }: HandlerFacts): void {
    if (kinds.length === 0) this.routes.method(type, handler);
    for (const kind of kinds) this.transports.add(kind, type, handler);
  }

  /** Whether the options of this IdempotencyModule apply to a class: another one may be nearer. */
  private serves({ hosts }: HostClass): boolean {
    return hosts.some(({ host }) =>
      [...(host?.injectables ?? [])].every(([token, { instance }]) => {
        if (typeof token !== 'function' || !isIdempotencyInterceptor(token)) return true;
        // Undefined where a test has replaced the interceptor.
        const { transports } = (instance ?? {}) as { readonly transports?: HandlerTransports };
        return transports === undefined || transports === this.transports;
      }),
    );
  }
}
