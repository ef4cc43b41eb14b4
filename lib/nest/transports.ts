import { Injectable, type CallHandler, type ExecutionContext } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { GraphqlTransport } from '../transports/graphql/graphql-transport.js';
import { HttpTransport } from '../transports/http/http-transport.js';
import { MessageTransport } from '../transports/message/message-transport.js';
import { SocketTransport } from '../transports/websocket/socket-transport.js';
import type { RouteTable } from './discovery/route-table.js';
import { RouteRegistry } from './registry/route-registry.js';

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
    readonly routes: RouteRegistry,
  ) {
    this.byType = new Map([
      ['http', handlersOf(routes.http, http)],
      ['rpc', handlersOf(routes.messages, messages)],
      ['ws', handlersOf(routes.sockets, sockets)],
      ['graphql', handlersOf(routes.graphql, graphql)],
    ]);
  }

  of(type: string): Intercept | undefined {
    return this.byType.get(type);
  }
}

function handlersOf<Route>(
  routes: RouteTable<Route>,
  transport: {
    intercept(context: ExecutionContext, next: CallHandler, route: Route): Observable<unknown>;
  },
): Intercept {
  return (context, next) =>
    transport.intercept(context, next, routes.of(context.getClass(), context.getHandler()));
}
