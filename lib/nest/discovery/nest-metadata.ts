import { RequestMethod, type Type } from '@nestjs/common';
// Nest does not export the names of its metadata: only this file knows them, and those of its optional packages.
import {
  GUARDS_METADATA,
  HEADERS_METADATA,
  HOST_METADATA,
  INTERCEPTORS_METADATA,
  METHOD_METADATA,
  PATH_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
  RESPONSE_PASSTHROUGH_METADATA,
  ROUTE_ARGS_METADATA,
  SELF_DECLARED_DEPS_METADATA,
  SSE_METADATA,
  VERSION_METADATA,
} from '@nestjs/common/constants.js';
import { isUnprotectedMethod } from '../../transports/common/ask-option.js';
import type { RouteFacts } from '../../transports/http/http-route.js';
import type { SocketFacts } from '../../transports/websocket/socket-route.js';
import type { Handler } from './idempotent.metadata.js';

const PATTERN = 'microservices:pattern';
const TRANSPORT = 'microservices:transport';
const HANDLER_TYPE = 'microservices:handler_type';
const EVENT_HANDLER = 2;
const RESOLVER_TYPE = 'graphql:resolver_type';

/** `RouteParamtypes` of `@Res()` and `@Next()`, the prefixes of the names of a route's parameters. */
const RESPONSE_PARAMETER = /^[12]:/;

/** `WsParamtype` of `@Ack()`, the same for a gateway's method. */
const ACK_PARAMETER = '13:';

/** The index of the acknowledgement's callback in a method without parameter decorators. */
const ACK_POSITION = 2;

/** The injection token of `FileInterceptor` and the like, which are anonymous classes. Only they inject it. */
const MULTER_OPTIONS = 'MULTER_MODULE_OPTIONS';

/** The interceptor for `@Exclude()`, recognised by name: its package may be installed twice. */
const SERIALIZER = 'ClassSerializerInterceptor';

/** Limits requests and authenticates none. Recognised by name, too. */
const THROTTLER = 'ThrottlerGuard';

/** The interceptor of `@nestjs/resilience`, and the prefix of what its decorators note. Recognised by name, too. */
const RESILIENCE = 'ResilienceInterceptor';
const OF_RESILIENCE = 'resilience:';

/** As the type of Nest's execution contexts. */
export type HandlerKind = 'http' | 'rpc' | 'ws' | 'graphql';

/** The metadata by which Nest declares handlers. */
const DECLARATIONS: readonly (readonly [kind: HandlerKind, metadata: string])[] = [
  ['http', METHOD_METADATA],
  ['rpc', PATTERN],
  ['ws', 'websockets:message_mapping'],
  ['graphql', RESOLVER_TYPE],
  ['graphql', 'graphql:resolve_property'],
  ['graphql', 'graphql:resolve_reference'],
];

export function kindsOf(handler: Handler): HandlerKind[] {
  return DECLARATIONS.filter(([, metadata]) => Reflect.hasMetadata(metadata, handler)).map(
    ([kind]) => kind,
  );
}

export function isHandler(method: Handler): boolean {
  return DECLARATIONS.some(([, metadata]) => Reflect.hasMetadata(metadata, method));
}

/** What Nest's decorators say of a handler. */
export interface Declaration
  extends Omit<RouteFacts, 'name' | 'parsesFormsOutside'>, Omit<SocketFacts, 'name'> {
  /** The transports that it is declared for, usually one; none for a method that is not a handler. */
  readonly kinds: readonly HandlerKind[];
  /** Of a route: what it serves, such as `POST /payments` or `POST /payments (version 2)`. */
  readonly requests: readonly string[];
  /** Of messages: declared by `@EventPattern()`. */
  readonly isEvent: boolean;
  /** Of messages: the only transport that it listens to; all, if `undefined`. */
  readonly transport: unknown;
  /** Of messages. */
  readonly patterns: readonly unknown[];
  /** Of GraphQL: not a query, subscription or field of another type. */
  readonly isMutation: boolean;
}

export function readDeclaration(
  type: Type,
  handler: Handler,
  property: string | symbol,
): Declaration {
  const method = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
  const redirect = Reflect.getMetadata(REDIRECT_METADATA, handler) as { url?: unknown } | undefined;
  const parameters = Reflect.getMetadata(ROUTE_ARGS_METADATA, type, property) as object | undefined;
  const names = Object.keys(parameters ?? {});
  const isNative =
    Reflect.getMetadata(RESPONSE_PASSTHROUGH_METADATA, type, property) !== true &&
    names.some((name) => RESPONSE_PARAMETER.test(name));
  // In Nest's order: `@Render()`, then `@Redirect()`, then a native handler.
  let rendition: RouteFacts['rendition'] = isNative ? 'nothing' : 'body';
  if (typeof redirect?.url === 'string') rendition = 'redirect';
  if (Reflect.getMetadata(RENDER_METADATA, handler)) rendition = 'page';
  return {
    kinds: kindsOf(handler),
    isSafe: method !== undefined && isUnprotectedMethod(RequestMethod[method]),
    isStream: Reflect.getMetadata(SSE_METADATA, handler) !== undefined,
    isNative,
    rendition,
    headers: ((Reflect.getMetadata(HEADERS_METADATA, handler) ?? []) as { name: string }[]).map(
      ({ name }) => name,
    ),
    isHostBound: Reflect.getMetadata(HOST_METADATA, type) !== undefined,
    requests: method === undefined ? [] : requestsOf(RequestMethod[method], type, handler),
    isEvent: Reflect.getMetadata(HANDLER_TYPE, handler) === EVENT_HANDLER,
    transport: Reflect.getMetadata(TRANSPORT, handler),
    patterns: (Reflect.getMetadata(PATTERN, handler) ?? []) as unknown[],
    takesAck:
      parameters === undefined
        ? handler.length > ACK_POSITION
        : names.some((name) => name.startsWith(ACK_PARAMETER)),
    // `@Resolver('Mutation')` makes every field that it resolves a mutation.
    isMutation:
      (Reflect.getMetadata(RESOLVER_TYPE, handler) ?? Reflect.getMetadata(RESOLVER_TYPE, type)) ===
      'Mutation',
  };
}

function requestsOf(method: string, controller: Type, handler: Handler): string[] {
  const version = (Reflect.getMetadata(VERSION_METADATA, handler) ??
    Reflect.getMetadata(VERSION_METADATA, controller)) as string | symbol | string[] | undefined;
  const suffix =
    version === undefined ? '' : ` (version ${[version].flat().map(String).join(', ')})`;
  return pathsOf(controller).flatMap((base) =>
    pathsOf(handler).map((path) => {
      const joined = `/${base}/${path}`.replace(/\/+/g, '/').replace(/(?<=.)\/$/, '');
      return `${method} ${joined}${suffix}`;
    }),
  );
}

function pathsOf(target: Handler): string[] {
  return [(Reflect.getMetadata(PATH_METADATA, target) ?? '') as string | string[]].flat();
}

/** The interceptors that decorators bind to a method or to a class, the outer ones first. */
export function interceptorsOf(target: Handler): object[] {
  return (Reflect.getMetadata(INTERCEPTORS_METADATA, target) ?? []) as object[];
}

export function guardsOf(target: Handler): object[] {
  return (Reflect.getMetadata(GUARDS_METADATA, target) ?? []) as object[];
}

export function isSerializer(interceptor: object): boolean {
  return classesOf(interceptor).includes(SERIALIZER);
}

export function isResilience(interceptor: object): boolean {
  return classesOf(interceptor).includes(RESILIENCE);
}

/** Whether a handler, or its class, has a decorator of `@nestjs/resilience`. */
export function isResilient({ type, handler }: { type: Type; handler: Handler }): boolean {
  return [type, handler].some((target) =>
    (Reflect.getMetadataKeys(target) as unknown[]).some(
      (key) => typeof key === 'string' && key.startsWith(OF_RESILIENCE),
    ),
  );
}

/** For a message. */
export function nameOfInterceptor(interceptor: object): string {
  const [name] = classesOf(interceptor);
  return name === undefined || name === '' || name === 'Object' ? 'one without a class' : name;
}

export function parsesForms(interceptor: object): boolean {
  const type = typeof interceptor === 'function' ? interceptor : interceptor.constructor;
  const injected = (Reflect.getMetadata(SELF_DECLARED_DEPS_METADATA, type) ?? []) as {
    param: unknown;
  }[];
  return injected.some(({ param }) => param === MULTER_OPTIONS);
}

/** The name of a guard that may authenticate; else none. */
export function authenticatorName(guard: object): string[] {
  const names = classesOf(guard);
  return names.includes(THROTTLER) ? [] : names.slice(0, 1);
}

/** The names of the class of an interceptor or guard, as an instance or as a class, and of those that it extends. */
function classesOf(enhancer: object): string[] {
  const names: string[] = [];
  let type: unknown = typeof enhancer === 'function' ? enhancer : enhancer.constructor;
  for (; typeof type === 'function'; type = Object.getPrototypeOf(type)) names.push(type.name);
  return names;
}
