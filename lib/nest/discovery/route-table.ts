import type { Type } from '@nestjs/common';
import { entryOf, type Handler } from './idempotent.metadata.js';

/** The protected handlers of one kind, each resolved once. */
export class RouteTable<Route> {
  private readonly routes = new Map<Type, Map<Handler, Route>>();

  constructor(private readonly resolve: (controller: Type, handler: Handler) => Route) {}

  /**
   * The route of a handler, wrapped or not. A handler of a lazy-loaded module is resolved at its first request.
   * @throws {@link IdempotencyOptionsError} if it cannot be protected.
   */
  of(controller: Type, handler: Handler): Route {
    const known = this.routes.get(controller)?.get(entryOf(handler) ?? handler);
    return known ?? this.added(controller, handler);
  }

  private added(controller: Type, handler: Handler): Route {
    const route = this.resolve(controller, handler);
    const routes = this.routes.get(controller) ?? new Map<Handler, Route>();
    this.routes.set(controller, routes.set(entryOf(handler) ?? handler, route));
    return route;
  }
}
