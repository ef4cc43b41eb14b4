import { Injectable, type CallHandler, type ExecutionContext, type Type } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { GraphqlTransport } from '../../transports/graphql/graphql-transport.js';
import { HttpTransport } from '../../transports/http/http-transport.js';
import { MessageTransport } from '../../transports/message/message-transport.js';
import { SocketTransport } from '../../transports/websocket/socket-transport.js';
import type { Handler } from '../discovery/idempotent.metadata.js';
import { HandlerRoutes, type RouteOf } from './handler-routes.js';
import { ResilienceSignals } from './resilience-signals.js';

interface Transport<Route> {
  /** Runs the handler, or returns its recorded response in its place. */
  intercept(context: ExecutionContext, next: CallHandler, route: Route): Observable<unknown>;
  /** Whether the request may go without Nest's streams. */
  isFast?(context: ExecutionContext, route: Route): boolean;
  /** The same without a stream. @returns `undefined` if the request needs one. */
  interceptAlone?(
    context: ExecutionContext,
    next: () => Promise<unknown>,
    route: Route,
  ): Promise<unknown> | undefined;
}

/** The transport of a handler's requests, and the route to call it with. */
export interface HandlerTransport {
  readonly transport: Transport<unknown>;
  readonly route: unknown;
}

/** The transports of all protected handlers. */
@Injectable()
export class HandlerTransports {
  /**
   * By handler, its class, and the type of Nest's execution context. A handler that is unknown at the start, of a
   * lazy-loaded module or in a new wrapper, is added at its first request.
   */
  readonly known = new WeakMap<Handler, Map<Type, Map<string, HandlerTransport>>>();
  /** The calls that the global interceptor has taken; `undefined` if there is none. */
  takenOutside: { has(context: ExecutionContext): boolean } | undefined;
  private readonly byContextType: ReadonlyMap<string, RouteOf<HandlerTransport>>;

  constructor(
    http: HttpTransport,
    messages: MessageTransport,
    sockets: SocketTransport,
    graphql: GraphqlTransport,
    routes: HandlerRoutes,
    /** Missing where a test turns protection off. */
    readonly signals?: ResilienceSignals,
  ) {
    this.byContextType = new Map([
      ['http', withRoute(http, routes.http)],
      ['rpc', withRoute(messages, routes.rpc)],
      ['ws', withRoute(sockets, routes.ws)],
      ['graphql', withRoute(graphql, routes.graphql)],
    ]);
  }

  /** @throws {@link IdempotencyOptionsError} for a handler that cannot be protected, and for requests of other types. */
  add(contextType: string, type: Type, handler: Handler): HandlerTransport {
    const resolve = this.byContextType.get(contextType);
    if (resolve === undefined) {
      throw new IdempotencyOptionsError(
        `@Idempotent() on ${type.name}.${handler.name} does not support requests of type "${contextType}". Use IdempotencyService.run() there.`,
      );
    }
    const added = resolve(type, handler);
    const byClass = this.known.get(handler) ?? new Map<Type, Map<string, HandlerTransport>>();
    const byContextType = byClass.get(type) ?? new Map<string, HandlerTransport>();
    this.known.set(handler, byClass.set(type, byContextType.set(contextType, added)));
    return added;
  }
}

function withRoute<Route>(
  transport: Transport<Route>,
  routeOf: RouteOf<Route>,
): RouteOf<HandlerTransport> {
  return (type, handler) => ({ transport, route: routeOf(type, handler) });
}
