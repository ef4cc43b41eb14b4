import { RequestMethod, type Type } from '@nestjs/common';
import {
  METHOD_METADATA,
  PATH_METADATA,
  SSE_METADATA,
  VERSION_METADATA,
} from '@nestjs/common/constants.js';
import { MetadataScanner } from '@nestjs/core';
import { canonicalJson } from '../../core/record/canonical-json.js';
import { entryOf, type Handler } from './idempotent.metadata.js';

const PATTERN = 'microservices:pattern';
const TRANSPORT = 'microservices:transport';
const RESOLVER_TYPE = 'graphql:resolver_type';

/** As the type of Nest's execution contexts. */
export type HandlerKind = 'http' | 'rpc' | 'ws' | 'graphql';

/** The metadata by which Nest declares handlers. Its constants, except HTTP's, are in optional packages. */
const DECLARATIONS: readonly (readonly [kind: HandlerKind, metadata: string])[] = [
  ['http', METHOD_METADATA],
  ['rpc', PATTERN],
  ['ws', 'websockets:message_mapping'],
  ['graphql', RESOLVER_TYPE],
  ['graphql', 'graphql:resolve_property'],
  ['graphql', 'graphql:resolve_reference'],
];

const HANDLER_TYPE = 'microservices:handler_type';
const EVENT_HANDLER = 2;

/** The transports that a method is declared for: usually one at the most. */
export function kindsOf(handler: Handler): HandlerKind[] {
  return DECLARATIONS.filter(([, metadata]) => Reflect.hasMetadata(metadata, handler)).map(
    ([kind]) => kind,
  );
}

export function isHandler(method: Handler): boolean {
  return DECLARATIONS.some(([, metadata]) => Reflect.hasMetadata(metadata, method));
}

/** Whether a method is a mutation of GraphQL, not a query, subscription or field of another type. */
export function isMutation(resolver: object, handler: Handler): boolean {
  const declared: unknown = Reflect.getMetadata(RESOLVER_TYPE, handler);
  // `@Resolver('Mutation')` makes every field that it resolves a mutation.
  return (declared ?? Reflect.getMetadata(RESOLVER_TYPE, resolver)) === 'Mutation';
}

/** Whether a class' decorator applies to this method: of GraphQL's fields to mutations only, and to no SSE stream. */
export function isCoveredByClass(host: object, handler: Handler): boolean {
  if (kindsOf(handler).includes('graphql')) return isMutation(host, handler);
  const isStream = Reflect.hasMetadata(SSE_METADATA, handler);
  return !isStream || Reflect.getMetadata(METHOD_METADATA, handler) !== RequestMethod.GET;
}

/** Whether a message handler was declared by `@EventPattern`. */
export function isEventHandler(handler: Handler): boolean {
  return Reflect.getMetadata(HANDLER_TYPE, handler) === EVENT_HANDLER;
}

/** Whether a message handler listens to a transport: to all, unless its decorator names one. */
export function listensTo(handler: Handler, transport: unknown): boolean {
  const own: unknown = Reflect.getMetadata(TRANSPORT, handler);
  return own === undefined || own === transport;
}

/** The patterns of a message handler. Equal patterns give equal strings. */
export function patternsOf(handler: Handler): string[] {
  const patterns = Reflect.getMetadata(PATTERN, handler) as readonly unknown[];
  return patterns.map((pattern) =>
    typeof pattern === 'object' && pattern !== null ? canonicalJson(pattern) : String(pattern),
  );
}

export function handlerNames(prototype: object): string[] {
  const methods = prototype as Readonly<Record<string, Handler>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.filter((name) => {
    const method = methods[name];
    return method !== undefined && kindsOf(method).length > 0;
  });
}

export function routeNames(prototype: object): string[] {
  const methods = prototype as Readonly<Record<string, object>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.filter((name) => Reflect.hasMetadata(METHOD_METADATA, methods[name] ?? {}));
}

/** The requests that a route serves, such as `POST /payments` or `POST /payments (version 2)`; else none. */
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

/** Makes `substitute` look like `method`: same metadata, name, length, and asynchronous or not. */
export function disguise(substitute: Handler, method: Handler, name = method.name): void {
  for (const key of Reflect.getOwnMetadataKeys(method) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), substitute);
  }
  Object.defineProperties(substitute, {
    name: { value: name, configurable: true },
    length: { value: method.length, configurable: true },
  });
  // Decorators recognise an asynchronous function by its prototype (`constructor.name` is then "AsyncFunction").
  Object.setPrototypeOf(substitute, Object.getPrototypeOf(method) as object);
}

/** The idempotent methods of a class that are not handlers, inherited ones included, without foreign wrappers. */
export function idempotentMethods(prototype: object): Handler[] {
  const methods = prototype as Readonly<Record<string, Handler>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.flatMap((name) => entryOfMethod(methods[name]) ?? []);
}

/** The function that `@Idempotent()` made of a method; `undefined` for handlers and methods without the decorator. */
export function entryOfMethod(method: Handler | undefined): Handler | undefined {
  return method === undefined || isHandler(method) ? undefined : entryOf(method);
}
