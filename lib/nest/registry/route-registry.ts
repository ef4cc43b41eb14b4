import { Inject, Injectable, Logger, type Type } from '@nestjs/common';
import { ApplicationConfig, DiscoveryService } from '@nestjs/core';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { within } from '../../core/util/option-checks.js';
import type { Level } from '../../core/util/option-schema.js';
import type { ValueRoute } from '../../transports/call/value-route.js';
import {
  graphqlRoute,
  recoverableMutation,
  type GraphqlRoute,
} from '../../transports/graphql/graphql-route.js';
import {
  httpRoute,
  isSafeRoute,
  recoverableRoute,
  type HttpRoute,
} from '../../transports/http/http-route.js';
import {
  messageRoute,
  recoverableMessage,
  type MessageRoute,
} from '../../transports/message/message-route.js';
import { recoverableSocket, socketRoute } from '../../transports/websocket/socket-route.js';
import { checkInstances } from '../discovery/call-instances.js';
import { parsesFormsInside, parsesFormsOutside } from '../discovery/file-interceptors.js';
import {
  idempotentMethods,
  handlerNames,
  isEventHandler,
  isCoveredByClass,
  isMutation,
  kindsOf,
  requestsOf,
  type HandlerKind,
} from '../discovery/handler-kinds.js';
import {
  entriesOf,
  entryOf,
  hasOtherOptions,
  idempotentOptions,
  isIdempotencyInterceptor,
  reportsEntry,
  type Handler,
} from '../discovery/idempotent.metadata.js';
import { RouteTable } from '../discovery/route-table.js';
import { interceptorsOf, methodsBoundTo, Serializers } from '../discovery/serializers.js';
import { checkInstance, checkReached, reportWrappers } from '../discovery/wrapped-handlers.js';
import {
  handlerLevel,
  resolveOptions,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
} from '../options/idempotency-options.js';
import { OPTIONS_IN_USE } from '../options/idempotency.module-definition.js';
import { methodRoute, recoverableMethod, type MethodRoute } from './method-route.js';

/** The form of a class name made by Nest's `mixin()`. */
const RANDOM_NAME = /^[0-9a-f]{21}$/;

interface HandlerLocation {
  readonly controller: Type;
  readonly handler: Handler;
}

interface NamedOperation extends HandlerLocation {
  readonly recoverable: RecoverableOperation | undefined;
}

/** Every protected handler and method of the application, resolved once. */
@Injectable()
export class RouteRegistry {
  readonly http = this.table((host, handler) => this.httpRoute(host, handler));
  readonly messages = this.table((host, handler) => this.messageRoute(host, handler));
  readonly sockets = this.table((host, handler) => this.socketRoute(host, handler));
  readonly graphql = this.table((host, handler) => this.graphqlRoute(host, handler));
  /** Idempotent methods that are not handlers, as `@Idempotent()` made them. */
  readonly calls = this.table((host, handler) => this.methodRoute(host, handler));
  private readonly logger = new Logger('Idempotency');
  private readonly operations = new Map<string, NamedOperation>();
  private readonly tables: Readonly<Partial<Record<HandlerKind, RouteTable<unknown>>>> = {
    http: this.http,
    message: this.messages,
    socket: this.sockets,
    graphql: this.graphql,
  };

  constructor(
    @Inject(OPTIONS_IN_USE) private readonly options: IdempotencyModuleOptions,
    private readonly discovery: DiscoveryService,
    private readonly serializers: Serializers,
    private readonly application: ApplicationConfig,
  ) {
    for (const { prototype } of this.classes()) reportWrappers(prototype);
  }

  /**
   * Resolves all handlers and methods, so that an invalid one stops the start.
   * @throws {@link IdempotencyOptionsError} for invalid options, handlers that cannot be protected, classes with
   *   nothing to protect, instances that cannot be reached, and operations of the same name.
   */
  resolveAll(): void {
    this.checkGlobalInterceptors();
    for (const { type, prototype, instance } of this.classes()) {
      checkBound(type, prototype);
      checkReached(type, prototype);
      checkInstance(instance, prototype);
    }
    for (const { controller, handler, kinds, isOwn } of this.protectedHandlers()) {
      if (!isOwn) this.reserveOtherName(controller, handler);
      else for (const kind of kinds) this.tables[kind]?.of(controller, handler);
    }
    for (const { type, prototype, isOwn } of this.classes()) {
      const entries = idempotentMethods(prototype);
      for (const entry of entries) {
        if (isOwn) this.calls.of(type, entry);
        else this.reserveOtherName(type, entry);
      }
      if (entries.length === 0) checkSomethingToProtect(type, prototype);
    }
    checkInstances(this.discovery.getProviders());
    this.warnOfNoEffect();
  }

  isNamed(operation: string): boolean {
    return this.operations.has(operation);
  }

  /** How records of an operation are recovered without a request, if it is resolved and has a function for it. */
  recoverable(operation: string): RecoverableOperation | undefined {
    return this.operations.get(operation)?.recoverable;
  }

  private *protectedHandlers(): Generator<ProtectedHandler> {
    for (const { type: controller, prototype, isOwn } of this.classes()) {
      for (const name of handlerNames(prototype)) {
        const handler = prototype[name];
        if (handler === undefined || !isProtected(controller, handler)) continue;
        yield { controller, handler, kinds: kindsOf(handler), isOwn };
      }
    }
  }

  private *classes(): Generator<HostClass> {
    const hosts = [...this.discovery.getControllers(), ...this.discovery.getProviders()];
    for (const { metatype, instance, host } of hosts) {
      if (typeof metatype !== 'function') continue;
      const type = metatype as Type;
      // Undefined for a factory's function.
      const prototype = type.prototype as Record<string, Handler> | undefined;
      if (prototype !== undefined) yield { type, prototype, instance, isOwn: this.isFor(host) };
    }
  }

  /** Whether handlers of a module are looked up in this registry: another IdempotencyModule may be nearer. */
  private isFor(host: HostModule): boolean {
    const levels = [...(host?.injectables ?? [])].filter(
      ([token]) => typeof token === 'function' && isIdempotencyInterceptor(token),
    );
    return levels.every(([, { instance }]) => {
      // Undefined where a test has replaced the interceptor.
      const { routes } = (instance ?? {}) as { readonly routes?: RouteRegistry };
      return routes === undefined || routes === this;
    });
  }

  /** Routes whose errors say where their options were given. */
  private table<Route>(resolve: (host: Type, handler: Handler) => Route): RouteTable<Route> {
    return new RouteTable((host, handler) => {
      const method = nameOf(host, handler);
      const place = `@Idempotent() on ${method}${this.moduleOf(host)}`;
      return within(method, place, () => resolve(host, handler));
    });
  }

  private moduleOf(type: Type): string {
    const hosts = [...this.discovery.getControllers(), ...this.discovery.getProviders()];
    const name = hosts.find(({ metatype }) => metatype === type)?.host?.name;
    return name === undefined ? '' : ` (module ${name})`;
  }

  private httpRoute(controller: Type, handler: Handler): HttpRoute {
    const options = resolveOptions('http', this.options, ...optionLevelsOf(controller, handler));
    const isMulterBound = parsesFormsOutside(controller, handler);
    const route = httpRoute(controller, handler, options, isMulterBound);
    // Requests that are never protected have no records, so their names cannot collide.
    if (isSafeRoute(handler)) return route;
    if (options.enabled !== false) this.checkContent(route, handler);
    this.reserveName(route.operation, controller, handler, recoverableRoute(route));
    return route;
  }

  private messageRoute(controller: Type, handler: Handler): MessageRoute {
    const isEvent = isEventHandler(handler);
    const levels = optionLevelsOf(controller, handler);
    const options = resolveOptions(isEvent ? 'event' : 'message', this.options, ...levels);
    const route = messageRoute(nameOf(controller, handler), isEvent, options);
    // The return value of an event's handler is not sent.
    if (!isEvent) this.serializers.checkInside(controller, handler);
    this.reserveName(route.operation, controller, handler, recoverableMessage(route));
    return route;
  }

  private socketRoute(gateway: Type, handler: Handler): ValueRoute {
    const levels = optionLevelsOf(gateway, handler);
    const options = resolveOptions('socket', this.options, ...levels);
    const isKeyNamed = levels.some(namesKey);
    const route = socketRoute(gateway, handler, options, isKeyNamed);
    if (options.enabled !== false) this.serializers.checkInside(gateway, handler);
    this.reserveName(route.operation, gateway, handler, recoverableSocket(route));
    return route;
  }

  private graphqlRoute(resolver: Type, handler: Handler): GraphqlRoute {
    const options = resolveOptions('graphql', this.options, ...optionLevelsOf(resolver, handler));
    const route = graphqlRoute(nameOf(resolver, handler), isMutation(resolver, handler), options);
    if (options.enabled !== false) this.serializers.checkInside(resolver, handler);
    this.reserveName(route.operation, resolver, handler, recoverableMutation(route));
    return route;
  }

  private methodRoute(type: Type, entry: Handler): MethodRoute {
    const options = idempotentOptions(entry) as object;
    const route = methodRoute(nameOf(type, entry), this.options, idempotentOptions(type), options);
    this.reserveName(route.operation, type, entry, recoverableMethod(route));
    return route;
  }

  /** @throws {@link IdempotencyOptionsError} if the interceptor is bound to all handlers. */
  private checkGlobalInterceptors(): void {
    const { application } = this;
    const ofRequests = application.getGlobalRequestInterceptors();
    const types = [
      ...application.getGlobalInterceptors().map(({ constructor }) => constructor),
      ...ofRequests.flatMap(({ metatype }) => metatype ?? []),
    ];
    if (types.some(isIdempotencyInterceptor)) throw boundAlone('the whole application');
  }

  /** Whether the content of a form can still be compared when the request reaches the interceptor. */
  private checkContent({ operation, options }: HttpRoute, handler: Handler): void {
    const { fingerprint } = options;
    const isCompared = fingerprint !== false && typeof fingerprint !== 'function';
    if (isCompared && parsesFormsInside(handler)) {
      throw new IdempotencyOptionsError(
        `The form of ${operation} is parsed inside IdempotencyInterceptor, which then cannot compare its content. Put the file interceptor (@UseInterceptors(FileInterceptor(…)) or the like) below @Idempotent() (decorators apply from the bottom up), or set the option "fingerprint" to a function.`,
      );
    }
  }

  private reserveName(
    operation: string,
    controller: Type,
    handler: Handler,
    recoverable: RecoverableOperation | undefined,
  ): void {
    if (operation === nameOf(controller, handler) && RANDOM_NAME.test(controller.name)) {
      throw new IdempotencyOptionsError(
        `@Idempotent() is on a method "${handler.name}" of a class that mixin() of Nest has given a random name, different in every process: no retry would find its record. Name the operation, @Idempotent({ operation: '…' }), differently for each mixed-in class; or create the class without mixin().`,
      );
    }
    const other = this.operations.get(operation);
    if (other !== undefined && (other.controller !== controller || other.handler !== handler)) {
      throw new IdempotencyOptionsError(
        `Two operations are named "${operation}": ${this.locationOf(other)} and ${this.locationOf({ controller, handler })}. One would replay the other's outcomes. Name them differently by @Idempotent({ operation: '…' }) on the method, or rename a class.`,
      );
    }
    this.operations.set(operation, { controller, handler, recoverable });
  }

  /** Reserves the name of an operation that another IdempotencyModule serves, whose store may be the same. */
  private reserveOtherName(type: Type, handler: Handler): void {
    if (kindsOf(handler).includes('http') && isSafeRoute(handler)) return;
    const given = idempotentOptions(handler)?.operation ?? idempotentOptions(type)?.operation;
    this.reserveName(given ?? nameOf(type, handler), type, handler, undefined);
  }

  private locationOf({ controller, handler }: HandlerLocation): string {
    const hosts = [...this.discovery.getControllers(), ...this.discovery.getProviders()];
    const modules = hosts.filter(({ metatype }) => metatype === controller);
    const names = new Set(modules.map(({ host }) => host?.metatype.name ?? 'no module'));
    const where = [...requestsOf(controller, handler), `in ${[...names].join(' and ')}`];
    return `${nameOf(controller, handler)} (${where.join(', ')})`;
  }

  /** Warns of decorators without effect that need not stop the start. */
  private warnOfNoEffect(): void {
    // A class may be in several modules.
    const warned = new Set<Handler>();
    for (const { controller, handler, kinds, isOwn } of this.protectedHandlers()) {
      const options = idempotentOptions(handler);
      if (!isOwn || options === undefined || options.enabled === false) continue;
      if (warned.has(handler)) continue;
      if (kinds.some((kind) => kind !== 'http') || !isSafeRoute(handler)) continue;
      warned.add(handler);
      this.logger.warn(
        `@Idempotent() on ${this.locationOf({ controller, handler })} has no effect: requests of a safe method change nothing and are never protected. Remove it, or use POST for a request that has an effect.`,
      );
    }
    for (const { type, prototype, isOwn } of this.classes()) {
      if (!isOwn) continue;
      for (const target of [type, ...entriesOf(prototype).values()]) {
        if (!hasOtherOptions(target) || warned.has(target)) continue;
        warned.add(target);
        const place = target === type ? type.name : nameOf(type, target);
        this.logger.warn(
          `@Idempotent() is on ${place} more than once, with different options: the upper one counts, the others are ignored. Keep one of them.`,
        );
      }
    }
  }
}

interface HostClass {
  readonly type: Type;
  readonly prototype: Readonly<Record<string, Handler>>;
  readonly instance: unknown;
  /** Whether the options of the registry's own module apply to it. */
  readonly isOwn: boolean;
}

type HostModule = ReturnType<DiscoveryService['getProviders']>[number]['host'];

interface ProtectedHandler {
  readonly controller: Type;
  readonly handler: Handler;
  readonly kinds: readonly HandlerKind[];
  readonly isOwn: boolean;
}

/** Whether it, or its class, has `@Idempotent()`. */
export function isProtected(controller: Type, handler: Handler): boolean {
  if (idempotentOptions(handler) !== undefined) return true;
  return idempotentOptions(controller) !== undefined && isCoveredByClass(controller, handler);
}

/** @throws {@link IdempotencyOptionsError} if the interceptor is bound without `@Idempotent()`. */
function checkBound(type: Type, prototype: Readonly<Record<string, Handler>>): void {
  if (interceptorsOf(type).some(isIdempotencyInterceptor)) throw boundAlone(type.name);
  for (const [, method] of methodsBoundTo(prototype, isIdempotencyInterceptor)) {
    if (!reportsEntry(method) && !isProtected(type, method)) throw boundAlone(nameOf(type, method));
  }
}

function boundAlone(place: string): IdempotencyOptionsError {
  return new IdempotencyOptionsError(
    `IdempotencyInterceptor is bound to ${place} by itself (@UseInterceptors(), useGlobalInterceptors() or APP_INTERCEPTOR) and protects nothing. Remove it there, and put @Idempotent() on each handler that must run once, or on its class: it binds the interceptor itself.`,
  );
}

/** @throws {@link IdempotencyOptionsError} for a class with the decorator and without handlers. */
function checkSomethingToProtect(type: Type, prototype: object): void {
  if (idempotentOptions(type) === undefined || handlerNames(prototype).length > 0) return;
  throw new IdempotencyOptionsError(
    `@Idempotent() on ${type.name} protects request handlers, and the class has none. Put it on the methods that must run once, each with the option "key", a function of the method's arguments.`,
  );
}

/** @throws {@link IdempotencyOptionsError} for a handler that only inherits its protection. */
function optionLevelsOf(controller: Type, handler: Handler): Level[] {
  if (!reportsEntry(handler)) {
    if (!isProtected(controller, handler)) throw boundAlone(nameOf(controller, handler));
    throw new IdempotencyOptionsError(
      `${nameOf(controller, handler)} inherits the interceptor of a protected base class, but not the decorator. Put @Idempotent() on ${controller.name} too.`,
    );
  }
  return [
    handlerLevel('class', idempotentOptions(controller) ?? {}),
    handlerLevel('method', idempotentOptions(handler) ?? {}),
  ];
}

/** Whether the option `key.from` is the name of a header. */
function namesKey({ given }: Level): boolean {
  const { key } = given as IdempotencyOptions;
  return typeof (typeof key === 'object' ? key.from : key) === 'string';
}

export function nameOf(controller: Type, handler: Handler): string {
  // A wrapper may have another name.
  return `${controller.name}.${(entryOf(handler) ?? handler).name}`;
}
