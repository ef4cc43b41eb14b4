import type { INestApplicationContext, Type } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { disguise, routeNames } from '../nest/discovery/handler-kinds.js';
import { reportsEntry, type Handler } from '../nest/discovery/idempotent.metadata.js';
import { HandlerRoutes } from '../nest/registry/handler-routes.js';
import type { HttpRoute } from '../transports/http/http-route.js';

/** The metadata of `@ApiExtension()`, which `SwaggerModule` copies to each of the handler's operations. */
const EXTENSIONS = 'swagger/apiExtension';

/** The extension of a protected route's operations while their document is created. */
export const MARK = 'x-nestjs-idempotency';

type Prototype = Record<string, Handler>;

interface ProtectedMethod {
  readonly prototype: Prototype;
  readonly name: string;
  readonly handler: Handler;
  readonly route: HttpRoute;
}

/**
 * Creates a document in which the operations of protected routes have marks: Swagger copies them, while paths have
 * prefixes and versions.
 * @returns the document, and the routes by their marks.
 */
export function createMarked<Document>(
  app: INestApplicationContext,
  create: () => Document,
): { readonly document: Document; readonly routes: ReadonlyMap<unknown, HttpRoute> } {
  const methods = [...protectedMethods(app)];
  // Two operations of the same name stop the start.
  const routes = new Map(methods.map(({ route }) => [route.operation, route]));
  const unmark: (() => void)[] = [];
  try {
    for (const method of methods) unmark.push(putMark(method));
    return { document: create(), routes };
  } finally {
    for (const undo of unmark) undo();
  }
}

function* protectedMethods(app: INestApplicationContext): Generator<ProtectedMethod> {
  const routes = app.get(HandlerRoutes, { strict: false });
  for (const { metatype } of app.get(DiscoveryService, { strict: false }).getControllers()) {
    if (typeof metatype !== 'function') continue;
    const controller = metatype as Type;
    const prototype = controller.prototype as Prototype;
    for (const name of routeNames(prototype)) {
      const handler = prototype[name];
      if (handler === undefined || !reportsEntry(handler)) continue;
      const route = routes.http(controller, handler);
      if (route.options.enabled !== false) yield { prototype, name, handler, route };
    }
  }
}

/** Replaces the method by a marked copy, since controllers may inherit it; returns a function that restores it. */
function putMark({ prototype, name, handler, route }: ProtectedMethod): () => void {
  const own = Object.getOwnPropertyDescriptor(prototype, name);
  const copy = function (this: unknown, ...args: unknown[]): unknown {
    return Reflect.apply(handler, this, args) as unknown;
  };
  disguise(copy, handler);
  const extensions = Reflect.getOwnMetadata(EXTENSIONS, handler) as object | undefined;
  Reflect.defineMetadata(EXTENSIONS, { ...extensions, [MARK]: route.operation }, copy);
  Object.defineProperty(prototype, name, { value: copy, writable: true, configurable: true });
  return () => {
    if (own === undefined) Reflect.deleteProperty(prototype, name);
    else Object.defineProperty(prototype, name, own);
  };
}
