import { RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA, PATH_METADATA, VERSION_METADATA } from '@nestjs/common/constants.js';
import { MetadataScanner } from '@nestjs/core';
import type { Handler } from '../../transports/http/http-route.js';

/** Names of a controller's methods that are routes, those of base classes included. */
export function routeNames(prototype: object): string[] {
  const methods = prototype as Readonly<Record<string, object>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.filter((name) => Reflect.hasMetadata(METHOD_METADATA, methods[name] ?? {}));
}

/** What a handler of a controller answers, `POST /payments` or `POST /payments (version 2)`, as its decorators tell: none where it is no route. */
export function requestsOf(controller: Type, handler: Handler): string[] {
  const method = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
  if (method === undefined) return [];
  return pathsOf(controller).flatMap((base) =>
    pathsOf(handler).map(
      (path) =>
        `${RequestMethod[method]} ${`/${base}/${path}`.replace(/\/+/g, '/').replace(/(?<=.)\/$/, '')}${versionOf(controller, handler)}`,
    ),
  );
}

function versionOf(controller: Type, handler: Handler): string {
  const version = (Reflect.getMetadata(VERSION_METADATA, handler) ??
    Reflect.getMetadata(VERSION_METADATA, controller)) as string | symbol | string[] | undefined;
  return version === undefined ? '' : ` (version ${[version].flat().map(String).join(', ')})`;
}

function pathsOf(target: object): string[] {
  return [(Reflect.getMetadata(PATH_METADATA, target) ?? '') as string | string[]].flat();
}

/** Makes `substitute` look like `method`: what its decorators say, its length, and whether it is asynchronous. */
export function disguise(substitute: Handler, method: Handler, name = method.name): void {
  for (const key of Reflect.getOwnMetadataKeys(method) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), substitute);
  }
  Object.defineProperties(substitute, {
    name: { value: name, configurable: true },
    length: { value: method.length, configurable: true },
  });
  // By this do decorators tell what returns a promise (`constructor.name` is then "AsyncFunction").
  Object.setPrototypeOf(substitute, Object.getPrototypeOf(method) as object);
}
