import type { Type } from '@nestjs/common';
import { GUARDS_METADATA } from '@nestjs/common/constants.js';
import type { ApplicationConfig } from '@nestjs/core';
import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { isSafeRoute, type HttpRoute } from '../../transports/http/http-route.js';
import { parsesFormsInside } from '../discovery/file-interceptors.js';
import { handlerNames, kindsOf } from '../discovery/handler-kinds.js';
import {
  entriesOf,
  hasOtherOptions,
  idempotentOptions,
  isIdempotencyInterceptor,
  reportsEntry,
  type Handler,
} from '../discovery/idempotent.metadata.js';
import { classesOf, interceptorsOf, methodsBoundTo } from '../discovery/serializers.js';
import {
  isProtected,
  nameOf,
  protectedHandlers,
  type HostClass,
  type HostClasses,
} from './host-classes.js';

/** @throws {@link IdempotencyOptionsError} if the interceptor is bound to all handlers. */
export function checkGlobalInterceptors(application: ApplicationConfig): void {
  const types = [
    ...application.getGlobalInterceptors().map(({ constructor }) => constructor),
    ...application.getGlobalRequestInterceptors().flatMap(({ metatype }) => metatype ?? []),
  ];
  if (types.some(isIdempotencyInterceptor)) throw boundAlone('the whole application');
}

/** @throws {@link IdempotencyOptionsError} if the interceptor is bound without `@Idempotent()`. */
export function checkBound({ type, prototype }: HostClass): void {
  if (interceptorsOf(type).some(isIdempotencyInterceptor)) throw boundAlone(type.name);
  for (const [, method] of methodsBoundTo(prototype, isIdempotencyInterceptor)) {
    if (!reportsEntry(method) && !isProtected(type, method)) throw boundAlone(nameOf(type, method));
  }
}

/** @throws {@link IdempotencyOptionsError} for a handler that has the interceptor without the decorator. */
export function checkDeclared(type: Type, handler: Handler): void {
  if (reportsEntry(handler)) return;
  if (!isProtected(type, handler)) throw boundAlone(nameOf(type, handler));
  throw new IdempotencyOptionsError(
    `${nameOf(type, handler)} inherits the interceptor of a protected base class, but not the decorator. Put @Idempotent() on ${type.name} too.`,
  );
}

function boundAlone(place: string): IdempotencyOptionsError {
  return new IdempotencyOptionsError(
    `IdempotencyInterceptor is bound to ${place} by itself (@UseInterceptors(), useGlobalInterceptors() or APP_INTERCEPTOR) and protects nothing. Remove it there, and put @Idempotent() on each handler that must run once, or on its class: it binds the interceptor itself.`,
  );
}

/** @throws {@link IdempotencyOptionsError} for a class with the decorator and without handlers. */
export function checkSomethingToProtect({ type, prototype }: HostClass): void {
  if (idempotentOptions(type) === undefined || handlerNames(prototype).length > 0) return;
  throw new IdempotencyOptionsError(
    `@Idempotent() on ${type.name} protects request handlers, and the class has none. Put it on the methods that must run once, each with the option "key", a function of the method's arguments.`,
  );
}

/** @throws {@link IdempotencyOptionsError} if the content of a form cannot be compared when its request arrives. */
export function checkContent({ operation, options }: HttpRoute, handler: Handler): void {
  const { fingerprint } = options;
  const isCompared = fingerprint !== false && typeof fingerprint !== 'function';
  if (isCompared && parsesFormsInside(handler)) {
    throw new IdempotencyOptionsError(
      `The form of ${operation} is parsed inside IdempotencyInterceptor, which then cannot compare its content. Put the file interceptor (@UseInterceptors(FileInterceptor(…)) or the like) below @Idempotent() (decorators apply from the bottom up), or set the option "fingerprint" to a function.`,
    );
  }
}

/** Warnings of decorators without effect, which need not stop the start. */
export function* warningsOf(own: readonly HostClass[], classes: HostClasses): Generator<string> {
  // A class may be in several modules.
  const warned = new Set<Handler>();
  for (const host of own) {
    for (const handler of protectedHandlers(host)) {
      if (!isWithoutEffect(handler) || warned.has(handler)) continue;
      warned.add(handler);
      yield `@Idempotent() on ${classes.locationOf(host.type, handler)} has no effect: requests of a safe method change nothing and are never protected. Remove it, or use POST for a request that has an effect.`;
    }
  }
  for (const { type, prototype } of own) {
    for (const target of [type, ...entriesOf(prototype).values()]) {
      if (!hasOtherOptions(target) || warned.has(target)) continue;
      warned.add(target);
      const place = target === type ? type.name : nameOf(type, target);
      yield `@Idempotent() is on ${place} more than once, with different options: the upper one counts, the others are ignored. Keep one of them.`;
    }
  }
}

/** Whether its own decorator is for requests of safe methods only. */
function isWithoutEffect(handler: Handler): boolean {
  const options = idempotentOptions(handler);
  if (options === undefined || options.enabled === false) return false;
  return isSafeRoute(handler) && kindsOf(handler).every((kind) => kind === 'http');
}

/** Limits requests and authenticates none. Recognised by name: its package may be installed twice. */
const THROTTLER = 'ThrottlerGuard';

/**
 * Warnings of handlers with a guard whose unknown callers share one scope: that the guard names no caller, or one that
 * the library does not find, would go unnoticed.
 * @param isShared - whether unknown callers of a handler do.
 */
export function* sharedBehindGuards(
  own: readonly HostClass[],
  classes: HostClasses,
  application: ApplicationConfig,
  isShared: (type: Type, handler: Handler) => boolean,
): Generator<string> {
  const ofAll = globalGuards(application);
  // A class may be in several modules.
  const types = new Map(own.map((host) => [host.type, host]));
  for (const [type, host] of types) {
    for (const handler of protectedHandlers(host)) {
      const guards = [...ofAll, ...guardsOf(type), ...guardsOf(handler)].map(classesOf);
      const names = guards.flatMap((of) => (of.includes(THROTTLER) ? [] : (of[0] ?? [])));
      if (names.length === 0 || !isShared(type, handler)) continue;
      yield `${classes.locationOf(type, handler)} has a guard (${[...new Set(names)].join(', ')}) and the option "caller.anonymous": 'shared'. Requests that the guard lets through without a caller (an "id" or "sub" of their user, or what "caller.scope" returns) get each other's stored responses. Leave 'shared' out where the guard authenticates; keep it only on a public route whose responses any client may see.`;
    }
  }
}

function guardsOf(target: Handler): object[] {
  return (Reflect.getMetadata(GUARDS_METADATA, target) ?? []) as object[];
}

function globalGuards(application: ApplicationConfig): object[] {
  const requestScoped = application.getGlobalRequestGuards();
  return [
    ...application.getGlobalGuards(),
    ...requestScoped.flatMap(({ metatype }) => metatype ?? []),
  ];
}

/** What the routes of all transports have. */
export interface DeclaredRoute {
  readonly operation: string;
  readonly options: Pick<ResolvedProtocolOptions, 'outcome'> & { readonly enabled?: unknown };
}

const SHORT_RETENTION_MS = 600_000;

/** Warnings of outcomes that are gone before a client has given up: often seconds were meant. */
export function* shortRetentions(routes: readonly DeclaredRoute[]): Generator<string> {
  const short = new Map<number, string[]>();
  for (const { operation, options } of routes) {
    const { retention } = options.outcome;
    if (options.enabled === false || typeof retention !== 'number') continue;
    if (retention >= SHORT_RETENTION_MS) continue;
    short.set(retention, [...(short.get(retention) ?? []), operation]);
  }
  for (const [retention, operations] of short) {
    yield `The option "outcome.retention" of ${operations.join(', ')} is ${String(retention / 1_000)} s: a retry after that runs the operation again. Write it with its unit, such as '24h', and longer than any client retries.`;
  }
}
