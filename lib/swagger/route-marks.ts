import type { INestApplicationContext } from '@nestjs/common';
import type { HandlerFacts } from '../nest/discovery/handler-facts.js';
import { disguise } from '../nest/discovery/handler-report.js';
import { HandlerRoutes } from '../nest/registry/handler-routes.js';
import { HostClasses } from '../nest/registry/host-classes.js';
import type { HttpRoute } from '../transports/http/http-route.js';

/** The metadata of `@ApiExtension()`, which `SwaggerModule` copies to each of the handler's operations. */
const EXTENSIONS = 'swagger/apiExtension';

/** The extension of a protected route's operations while their document is created. */
export const MARK = 'x-nestjs-idempotency';

interface ProtectedMethod {
  readonly facts: HandlerFacts;
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
  for (const { methods } of app.get(HostClasses, { strict: false }).controllers()) {
    for (const facts of methods) {
      if (!facts.kinds.includes('http') || !facts.reports) continue;
      const route = routes.http(facts.type, facts.handler);
      if (route.options.enabled !== false) yield { facts, route };
    }
  }
}

/** Replaces the method by a marked copy, since controllers may inherit it; returns a function that restores it. */
function putMark({ facts, route }: ProtectedMethod): () => void {
  const { type, property, handler } = facts;
  const prototype = type.prototype as object;
  const own = Object.getOwnPropertyDescriptor(prototype, property);
  const copy = function (this: unknown, ...args: unknown[]): unknown {
    return Reflect.apply(handler, this, args) as unknown;
  };
  disguise(copy, handler);
  const extensions = Reflect.getOwnMetadata(EXTENSIONS, handler) as object | undefined;
  Reflect.defineMetadata(EXTENSIONS, { ...extensions, [MARK]: route.operation }, copy);
  Object.defineProperty(prototype, property, { value: copy, writable: true, configurable: true });
  return () => {
    if (own === undefined) Reflect.deleteProperty(prototype, property);
    else Object.defineProperty(prototype, property, own);
  };
}
