import { Inject, Injectable, type Type } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { IdempotencyOptionsError } from '../core/errors.js';
import {
  httpRoute,
  isSafeRoute,
  type Handler,
  type HttpRoute,
} from '../transports/http/http-route.js';
import { BodyParsers } from './body-parsers.js';
import { parsesFormsInside, parsesFormsOutside } from './file-interceptors.js';
import { resolveOptions, type IdempotencyModuleOptions } from './idempotency-options.js';
import { IDEMPOTENCY_MODULE_OPTIONS } from './idempotency.module-definition.js';
import { idempotentOptions, reportsEntry } from './idempotent.metadata.js';

/** Every protected route of the application, resolved once. */
@Injectable()
export class RouteRegistry {
  private readonly routes = new Map<Type, Map<Handler, HttpRoute>>();
  private readonly operations = new Map<string, { controller: Type; handler: Handler }>();

  constructor(
    @Inject(IDEMPOTENCY_MODULE_OPTIONS) private readonly options: IdempotencyModuleOptions,
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly parsers: BodyParsers,
  ) {}

  /**
   * Resolves all routes, so that a bad one stops the start and not a request.
   *
   * @throws {@link IdempotencyOptionsError} for options that cannot work, routes that cannot be
   * protected, and operations of the same name.
   */
  resolveAll(): void {
    for (const { metatype } of this.discovery.getControllers()) {
      if (typeof metatype !== 'function') continue;
      const controller = metatype as Type;
      const prototype = controller.prototype as Record<string, Handler>;
      for (const name of this.scanner.getAllMethodNames(prototype)) {
        const handler = prototype[name];
        if (handler !== undefined && isProtected(controller, handler)) this.of(controller, handler);
      }
    }
  }

  /** The route of a handler; of one that came with a lazy-loaded module it is resolved now. */
  of(controller: Type, handler: Handler): HttpRoute {
    const known = this.routes.get(controller)?.get(handler);
    return known ?? this.resolve(controller, handler);
  }

  /** The route of an operation, as far as it has been resolved. */
  named(operation: string): HttpRoute | undefined {
    const found = this.operations.get(operation);
    return found && this.of(found.controller, found.handler);
  }

  private resolve(controller: Type, handler: Handler): HttpRoute {
    if (!reportsEntry(handler)) {
      throw new IdempotencyOptionsError(
        `${nameOf(controller, handler)} inherits the interceptor of a protected base class, but not the decorator. Put @Idempotent() on ${controller.name} too.`,
      );
    }
    const layers = [idempotentOptions(controller), idempotentOptions(handler)];
    const { http, protocol } = resolveOptions(
      this.options,
      ...layers.filter((layer) => layer !== undefined),
    );
    const isMulterBound = parsesFormsOutside(controller, handler);
    const route = httpRoute(controller, handler, http, protocol, isMulterBound);
    if (http.enabled !== false && !isSafeRoute(handler)) this.checkContent(route, handler);
    this.claimName(route.operation, controller, handler);
    const routes = this.routes.get(controller) ?? new Map<Handler, HttpRoute>();
    this.routes.set(controller, routes.set(handler, route));
    return route;
  }

  /** Whether what the fingerprint is made of is there when the layer is reached. */
  private checkContent({ operation, options }: HttpRoute, handler: Handler): void {
    const { fingerprint } = options;
    if (fingerprint === 'bytes' && this.parsers.dropRawBodies) {
      throw new IdempotencyOptionsError(
        `The option "fingerprint" of ${operation} is 'bytes', but the application keeps no raw bodies: create it with NestFactory.create(…, { rawBody: true }), or choose another "fingerprint".`,
      );
    }
    const isCompared = fingerprint !== false && typeof fingerprint !== 'function';
    if (isCompared && parsesFormsInside(handler)) {
      throw new IdempotencyOptionsError(
        `The form of ${operation} is parsed inside of the layer, where its content cannot be compared any more: put its file interceptor (@UseInterceptors(FileInterceptor(…)) or the like) below @Idempotent(), for decorators apply from the bottom, or give a function as the option "fingerprint".`,
      );
    }
  }

  private claimName(operation: string, controller: Type, handler: Handler): void {
    const other = this.operations.get(operation);
    if (other !== undefined && (other.controller !== controller || other.handler !== handler)) {
      throw new IdempotencyOptionsError(
        `Two operations are named "${operation}": ${nameOf(other.controller, other.handler)} and ${nameOf(controller, handler)}. One would replay the other's outcomes: give each its own name by @Idempotent({ operation: '…' }).`,
      );
    }
    this.operations.set(operation, { controller, handler });
  }
}

function isProtected(controller: Type, handler: Handler): boolean {
  if (idempotentOptions(handler) !== undefined) return true;
  return (
    idempotentOptions(controller) !== undefined && Reflect.hasMetadata(METHOD_METADATA, handler)
  );
}

function nameOf(controller: Type, handler: Handler): string {
  return `${controller.name}.${handler.name}`;
}
