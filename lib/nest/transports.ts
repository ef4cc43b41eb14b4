import { Injectable, type CallHandler, type ExecutionContext } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { GraphqlTransport } from '../transports/graphql/graphql-transport.js';
import { HttpTransport } from '../transports/http/http-transport.js';
import { MessageTransport } from '../transports/message/message-transport.js';
import { SocketTransport } from '../transports/websocket/socket-transport.js';
import { HandlerRoutes, type RouteOf } from './registry/handler-routes.js';

/** Takes a request from Nest's pipeline and returns the response of its handler or its record. */
export type Intercept = (context: ExecutionContext, next: CallHandler) => Observable<unknown>;

/** The transports, by the types of Nest's execution contexts. */
@Injectable()
export class Transports {
  private readonly byType: ReadonlyMap<string, Intercept>;

  constructor(
    http: HttpTransport,
    messages: MessageTransport,
    sockets: SocketTransport,
    graphql: GraphqlTransport,
    readonly routes: HandlerRoutes,
  ) {
    this.byType = new Map([
      ['http', handlersOf(routes.http, http)],
      ['rpc', handlersOf(routes.message, messages)],
      ['ws', handlersOf(routes.socket, sockets)],
      ['graphql', handlersOf(routes.graphql, graphql)],
    ]);
  }

  of(type: string): Intercept | undefined {
    return this.byType.get(type);
  }
}

function handlersOf<Route>(
  routeOf: RouteOf<Route>,
  transport: {
    intercept(context: ExecutionContext, next: CallHandler, route: Route): Observable<unknown>;
  },
): Intercept {
  return (context, next) =>
    transport.intercept(context, next, routeOf(context.getClass(), context.getHandler()));
}
