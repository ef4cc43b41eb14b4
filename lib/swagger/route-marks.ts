import type { INestApplicationContext, Type } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { disguise, routeNames } from '../nest/discovery/handler-kinds.js';
import { reportsEntry } from '../nest/discovery/idempotent.metadata.js';
import { RouteRegistry } from '../nest/registry/route-registry.js';
import type { Handler, HttpRoute } from '../transports/http/http-route.js';

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

/** Finds the operations of protected routes by marks, which Swagger copies; paths have prefixes and versions. */
export class RouteMarks {
  private readonly methods: readonly ProtectedMethod[];
  private readonly routes: ReadonlyMap<unknown, HttpRoute>;

  constructor(app: INestApplicationContext) {
    this.methods = [...protectedMethods(app)];
    // Two operations of the same name stop the start.
    this.routes = new Map(this.methods.map(({ route }) => [route.operation, route]));
  }

  during<Result>(action: () => Result): Result {
    const unmark: (() => void)[] = [];
    try {
      for (const method of this.methods) unmark.push(putMark(method));
      return action();
    } finally {
      for (const undo of unmark) undo();
    }
  }

  routeOf(mark: unknown): HttpRoute | undefined {
    return this.routes.get(mark);
  }
}

function* protectedMethods(app: INestApplicationContext): Generator<ProtectedMethod> {
  const registry = app.get(RouteRegistry, { strict: false });
  for (const { metatype } of app.get(DiscoveryService, { strict: false }).getControllers()) {
    if (typeof metatype !== 'function') continue;
    const controller = metatype as Type;
    const prototype = controller.prototype as Prototype;
    for (const name of routeNames(prototype)) {
      const handler = prototype[name];
      if (handler === undefined || !reportsEntry(handler)) continue;
      const route = registry.http.of(controller, handler);
      if (route.options.enabled !== false) yield { prototype, name, handler, route };
    }
  }
}

/** Replaces the method by a marked copy, since controllers may inherit it; returns a function that restores it. */
function putMark({ prototype, name, handler, route }: ProtectedMethod): () => void {
  const own = Object.getOwnPropertyDescriptor(prototype, name);
  const copy = markedCopy(handler, route.operation);
  Object.defineProperty(prototype, name, { value: copy, writable: true, configurable: true });
  return () => {
    if (own === undefined) Reflect.deleteProperty(prototype, name);
    else Object.defineProperty(prototype, name, own);
  };
}

function markedCopy(handler: Handler, mark: string): Handler {
  const copy = function (this: unknown, ...args: unknown[]): unknown {
    return Reflect.apply(handler, this, args) as unknown;
  };
  disguise(copy, handler);
  const extensions = Reflect.getOwnMetadata(EXTENSIONS, handler) as object | undefined;
  Reflect.defineMetadata(EXTENSIONS, { ...extensions, [MARK]: mark }, copy);
  return copy;
}
