import { Inject, Injectable, type Type } from '@nestjs/common';
import { IdempotencyMeter } from '../../core/meter/idempotency-meter.js';
import type { Transport } from '../../core/record/events.js';
import { IdempotencyEvents } from '../../core/record/idempotency-events.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { within } from '../../core/options/option-checks.js';
import type { Level } from '../../core/options/option-schema.js';
import { recoverableCall } from '../../transports/call/call-recovery.js';
import type { ValueRoute } from '../../transports/call/value-route.js';
import {
  graphqlRoute,
  recoverableMutation,
  type GraphqlRoute,
} from '../../transports/graphql/graphql-route.js';
import { httpRoute, recoverableRoute, type HttpRoute } from '../../transports/http/http-route.js';
import {
  messageRoute,
  recoverableMessage,
  type MessageRoute,
} from '../../transports/message/message-route.js';
import { recoverableSocket, socketRoute } from '../../transports/websocket/socket-route.js';
import type { HandlerFacts } from '../discovery/handler-facts.js';
import { entryOf, type Handler } from '../discovery/idempotent.metadata.js';
import {
  handlerLevel,
  resolveOptions,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
} from '../options/idempotency-options.js';
import { OPTIONS_IN_USE } from '../options/idempotency.module-definition.js';
import { HostClasses } from './host-classes.js';
import { methodRoute, type MethodRoute } from './method-route.js';
import { OperationNames } from './operation-names.js';
import { check, HANDLER_CHECKS, ROUTE_CHECKS, type ProtectedRoute } from './start-checks.js';

/** The route of a handler in one of its classes. */
export type RouteOf<Route> = (type: Type, handler: Handler) => Route;

/**
 * The routes of protected handlers and methods, each resolved once.
 * @throws {@link IdempotencyOptionsError} for one that cannot be protected.
 */
@Injectable()
export class HandlerRoutes {
  readonly http = this.once((facts) => this.httpRoute(facts));
  readonly rpc = this.once((facts) => this.messageRoute(facts));
  readonly ws = this.once((facts) => this.socketRoute(facts));
  readonly graphql = this.once((facts) => this.graphqlRoute(facts));
  /** Of idempotent methods that are not handlers, as `@Idempotent()` made them. */
  readonly method = this.once((facts) => this.methodRoute(facts));

  /** Those whose requests have records, in the order of their resolution. */
  readonly protectedRoutes: ProtectedRoute[] = [];

  constructor(
    @Inject(OPTIONS_IN_USE) private readonly options: IdempotencyModuleOptions,
    private readonly classes: HostClasses,
    private readonly names: OperationNames,
    private readonly meter: IdempotencyMeter,
    private readonly events: IdempotencyEvents,
  ) {}

  /** Remembers routes by their entries, which wrappers share. Errors say where the options were given. */
  private once<Route>(resolve: (facts: HandlerFacts) => Route): RouteOf<Route> {
    const known = new Map<Type, Map<Handler, Route>>();
    return (type, handler) => {
      const entry = entryOf(handler) ?? handler;
      const found = known.get(type)?.get(entry);
      if (found !== undefined) return found;
      const facts = this.classes.handler(type, handler);
      check(facts, HANDLER_CHECKS);
      const [module] = facts.modules;
      const place = `@Idempotent() on ${facts.name}${module === undefined ? '' : ` (module ${module})`}`;
      const route = within(facts.name, place, () => resolve(facts));
      known.set(type, (known.get(type) ?? new Map<Handler, Route>()).set(entry, route));
      return route;
    };
  }

  private httpRoute(facts: HandlerFacts): HttpRoute {
    const options = resolveOptions('http', this.options, ...levelsOf(facts));
    const { classes } = this;
    const isOutermost = () => facts.isOutermost && !classes.hasGlobalInterceptors();
    const route = httpRoute(facts, options, isOutermost);
    // Requests that are never protected have no records, so their names cannot collide.
    return facts.isSafe ? route : this.declared(facts, 'http', route, recoverableRoute(route));
  }

  private messageRoute(facts: HandlerFacts): MessageRoute {
    const kind = facts.isEvent ? 'event' : 'message';
    const options = resolveOptions(kind, this.options, ...levelsOf(facts));
    const route = messageRoute(facts.name, facts.isEvent, options);
    return this.declared(facts, 'message', route, recoverableMessage(route));
  }

  private socketRoute(facts: HandlerFacts): ValueRoute {
    const levels = levelsOf(facts);
    const options = resolveOptions('socket', this.options, ...levels);
    const route = socketRoute(facts, options, levels.some(namesKey));
    return this.declared(facts, 'websocket', route, recoverableSocket(route));
  }

  private graphqlRoute(facts: HandlerFacts): GraphqlRoute {
    const options = resolveOptions('graphql', this.options, ...levelsOf(facts));
    const route = graphqlRoute(facts.name, facts.isMutation, options);
    return this.declared(facts, 'graphql', route, recoverableMutation(route));
  }

  private methodRoute(facts: HandlerFacts): MethodRoute {
    const { name, options, classOptions } = facts;
    const route = methodRoute(name, this.options, classOptions, options as object);
    // A function without parameters makes the key itself, as of the date.
    const isUnscoped = route.scope === undefined && route.key.length > 0;
    return this.declared(facts, 'call', route, recoverableCall(route), isUnscoped);
  }

  private declared<Route extends Pick<ProtectedRoute, 'operation' | 'options'>>(
    facts: HandlerFacts,
    transport: Transport,
    route: Route,
    recoverable: RecoverableOperation | undefined,
    isUnscoped = false,
  ): Route {
    const { operation, options } = route;
    const declared = { facts, transport, operation, options, isUnscoped };
    check(declared, ROUTE_CHECKS);
    this.names.reserve(operation, facts, { transport, options, recoverable });
    this.meter.declare(operation, transport);
    this.events.channels.declare(operation, facts.name);
    this.protectedRoutes.push(declared);
    return route;
  }
}

function levelsOf({ classOptions, options }: HandlerFacts): Level[] {
  return [handlerLevel('class', classOptions ?? {}), handlerLevel('method', options ?? {})];
}

/** Whether the option `key.from` is the name of a header. */
function namesKey({ given }: Level): boolean {
  const { key } = given as IdempotencyOptions;
  return typeof (typeof key === 'object' ? key.from : key) === 'string';
}
