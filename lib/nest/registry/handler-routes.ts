import { Inject, Injectable, type Type } from '@nestjs/common';
import { IdempotencyMeter } from '../../core/meter/idempotency-meter.js';
import type { Transport } from '../../core/record/events.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
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
import { parsesFormsOutside } from '../discovery/file-interceptors.js';
import { isEventHandler, isMutation } from '../discovery/handler-kinds.js';
import { entryOf, idempotentOptions, type Handler } from '../discovery/idempotent.metadata.js';
import { Serializers } from '../discovery/serializers.js';
import {
  handlerLevel,
  resolveOptions,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
} from '../options/idempotency-options.js';
import { OPTIONS_IN_USE } from '../options/idempotency.module-definition.js';
import { HostClasses, nameOf } from './host-classes.js';
import { methodRoute, recoverableMethod, type MethodRoute } from './method-route.js';
import { OperationNames } from './operation-names.js';
import { checkContent, checkDeclared, type DeclaredRoute } from './start-checks.js';

/** The route of a handler in one of its classes. */
export type RouteOf<Route> = (type: Type, handler: Handler) => Route;

/**
 * The routes of protected handlers and methods, each resolved once.
 * @throws {@link IdempotencyOptionsError} for one that cannot be protected.
 */
@Injectable()
export class HandlerRoutes {
  readonly http = this.once((type, handler) => this.httpRoute(type, handler));
  readonly rpc = this.once((type, handler) => this.messageRoute(type, handler));
  readonly ws = this.once((type, handler) => this.socketRoute(type, handler));
  readonly graphql = this.once((type, handler) => this.graphqlRoute(type, handler));
  /** Of idempotent methods that are not handlers, as `@Idempotent()` made them. */
  readonly method = this.once((type, entry) => this.methodRoute(type, entry));

  /** Those whose requests have records, in the order of their resolution. */
  readonly protectedRoutes: DeclaredRoute[] = [];

  constructor(
    @Inject(OPTIONS_IN_USE) private readonly options: IdempotencyModuleOptions,
    private readonly classes: HostClasses,
    private readonly names: OperationNames,
    private readonly serializers: Serializers,
    private readonly meter: IdempotencyMeter,
  ) {}

  /** Remembers routes by their entries, which wrappers share. Errors say where the options were given. */
  private once<Route>(resolve: RouteOf<Route>): RouteOf<Route> {
    const known = new Map<Type, Map<Handler, Route>>();
    return (type, handler) => {
      const entry = entryOf(handler) ?? handler;
      const found = known.get(type)?.get(entry);
      if (found !== undefined) return found;
      const route = this.withPlace(type, handler, resolve);
      known.set(type, (known.get(type) ?? new Map<Handler, Route>()).set(entry, route));
      return route;
    };
  }

  private withPlace<Route>(type: Type, handler: Handler, resolve: RouteOf<Route>): Route {
    const method = nameOf(type, handler);
    const [module] = this.classes.modulesOf(type);
    const place = `@Idempotent() on ${method}${module === undefined ? '' : ` (module ${module})`}`;
    return within(method, place, () => resolve(type, handler));
  }

  private httpRoute(controller: Type, handler: Handler): HttpRoute {
    const options = resolveOptions('http', this.options, ...optionLevelsOf(controller, handler));
    const isMulterBound = parsesFormsOutside(controller, handler);
    const isOutermost = this.serializers.outermost(controller, handler);
    const route = httpRoute(controller, handler, options, isMulterBound, isOutermost);
    // Requests that are never protected have no records, so their names cannot collide.
    if (isSafeRoute(handler)) return route;
    if (options.enabled !== false) checkContent(route, handler);
    this.declare('http', route, controller, handler, recoverableRoute(route));
    return route;
  }

  private messageRoute(controller: Type, handler: Handler): MessageRoute {
    const isEvent = isEventHandler(handler);
    const levels = optionLevelsOf(controller, handler);
    const options = resolveOptions(isEvent ? 'event' : 'message', this.options, ...levels);
    const route = messageRoute(nameOf(controller, handler), isEvent, options);
    // The return value of an event's handler is not sent.
    if (!isEvent) this.serializers.checkInside(controller, handler);
    this.declare('message', route, controller, handler, recoverableMessage(route));
    return route;
  }

  private socketRoute(gateway: Type, handler: Handler): ValueRoute {
    const levels = optionLevelsOf(gateway, handler);
    const options = resolveOptions('socket', this.options, ...levels);
    const isKeyNamed = levels.some(namesKey);
    const route = socketRoute(gateway, handler, options, isKeyNamed);
    if (options.enabled !== false) this.serializers.checkInside(gateway, handler);
    this.declare('websocket', route, gateway, handler, recoverableSocket(route));
    return route;
  }

  private graphqlRoute(resolver: Type, handler: Handler): GraphqlRoute {
    const options = resolveOptions('graphql', this.options, ...optionLevelsOf(resolver, handler));
    const route = graphqlRoute(nameOf(resolver, handler), isMutation(resolver, handler), options);
    if (options.enabled !== false) this.serializers.checkInside(resolver, handler);
    this.declare('graphql', route, resolver, handler, recoverableMutation(route));
    return route;
  }

  private methodRoute(type: Type, entry: Handler): MethodRoute {
    const options = idempotentOptions(entry) as object;
    const route = methodRoute(nameOf(type, entry), this.options, idempotentOptions(type), options);
    this.declare('call', route, type, entry, recoverableMethod(route));
    return route;
  }

  private declare(
    transport: Transport,
    { operation, options }: DeclaredRoute,
    type: Type,
    handler: Handler,
    recoverable: RecoverableOperation | undefined,
  ): void {
    this.names.reserve(operation, type, handler, recoverable);
    this.meter.declare(operation, transport);
    this.protectedRoutes.push({ operation, options });
  }
}

/** @throws {@link IdempotencyOptionsError} for a handler that only inherits its protection. */
function optionLevelsOf(type: Type, handler: Handler): Level[] {
  checkDeclared(type, handler);
  return [
    handlerLevel('class', idempotentOptions(type) ?? {}),
    handlerLevel('method', idempotentOptions(handler) ?? {}),
  ];
}

/** Whether the option `key.from` is the name of a header. */
function namesKey({ given }: Level): boolean {
  const { key } = given as IdempotencyOptions;
  return typeof (typeof key === 'object' ? key.from : key) === 'string';
}
