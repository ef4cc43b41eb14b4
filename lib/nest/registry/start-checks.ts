import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { Transport } from '../../core/record/events.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import type { ResolvedRequestOptions } from '../../transports/common/request-options.js';
import { locationOf, type ClassFacts, type HandlerFacts } from '../discovery/handler-facts.js';
import { isResilience, isResilient, nameOfInterceptor } from '../discovery/nest-metadata.js';

/** A handler or method whose requests have records, with its options resolved. */
export interface ProtectedRoute {
  readonly facts: HandlerFacts;
  readonly transport: Transport;
  readonly operation: string;
  readonly options: ResolvedProtocolOptions &
    Partial<Pick<ResolvedRequestOptions, 'enabled' | 'fingerprint' | 'caller'>>;
  /** Of a method: whether its arguments give the key, and nothing says whose it is. */
  readonly isUnscoped?: boolean;
}

/** Looks for one mistake. @returns the message of its error or warning; `undefined` if all is well. */
export type Check<Facts> = (facts: Facts) => string | undefined;

/** @throws {@link IdempotencyOptionsError} for the first mistake. */
export function check<Facts>(facts: Facts, checks: readonly Check<Facts>[]): void {
  for (const mistakeOf of checks) {
    const mistake = mistakeOf(facts);
    if (mistake !== undefined) throw new IdempotencyOptionsError(mistake);
  }
}

export const CLASS_CHECKS: readonly Check<ClassFacts>[] = [boundToClass, nothingToProtect];

export const HANDLER_CHECKS: readonly Check<HandlerFacts>[] = [unreached, undeclared];

export const ROUTE_CHECKS: readonly Check<ProtectedRoute>[] = [serializedOutside, formParsedInside];

export function boundAlone(place: string): string {
  return `IdempotencyInterceptor is bound to ${place} by itself (@UseInterceptors(), useGlobalInterceptors() or APP_INTERCEPTOR) and protects nothing. Remove it there, and put @Idempotent() on each handler that must run once, or on its class: it binds the interceptor itself.`;
}

function boundToClass({ name, isBound }: ClassFacts): string | undefined {
  return isBound ? boundAlone(name) : undefined;
}

function nothingToProtect({ name, options, methods }: ClassFacts): string | undefined {
  if (options === undefined || methods.length > 0) return undefined;
  return `@Idempotent() on ${name} protects request handlers, and the class has none. Put it on the methods that must run once, each with the option "key", a function of the method's arguments.`;
}

/** It would run unprotected. */
function unreached({ name, isReached }: HandlerFacts): string | undefined {
  if (isReached) return undefined;
  return `@Idempotent() on ${name} has no effect: a decorator above it replaced the method without copying its metadata, so Nest would run it unprotected, or not find it. Put @Idempotent() above that decorator (decorators apply from the bottom up), or make the decorator copy the metadata (Reflect.getMetadataKeys, Reflect.defineMetadata).`;
}

function undeclared(facts: HandlerFacts): string | undefined {
  const { type, name, kinds, isProtected, isBound, reports } = facts;
  if (reports) return undefined;
  if (isProtected && kinds.length > 0) {
    return `${name} inherits the interceptor of a protected base class, but not the decorator. Put @Idempotent() on ${type.name} too.`;
  }
  return isBound ? boundAlone(name) : undefined;
}

/** Stored values are plain data, where `@Exclude()` hides nothing. The return value of an event's handler is not sent. */
function serializedOutside({ facts, transport, options }: ProtectedRoute): string | undefined {
  if (transport === 'http' || transport === 'call' || facts.isEvent) return undefined;
  if (options.enabled === false || facts.serializesInside || !facts.serializesOutside) {
    return undefined;
  }
  return `${facts.name} returns its value to a ClassSerializerInterceptor through its record, as plain data: fields with @Exclude() would be exposed. Put @UseInterceptors(ClassSerializerInterceptor) on the method, above @Idempotent(); decorators apply from the bottom up.`;
}

/**
 * The interceptor of `@nestjs/resilience` around that of `isOutermost`, which is there to avoid this.
 * @param outside - the global interceptors outside of this library's.
 */
export function resilienceOutside(outside: readonly object[]): string | undefined {
  if (!outside.some(isResilience)) return undefined;
  return `The option "isOutermost" of IdempotencyModule has no effect: ResilienceModule is imported before it, so that its circuit breakers and bulkheads see each replay and each duplicate. Import IdempotencyModule before ResilienceModule: Nest runs the global interceptor that is registered first outside of the others.`;
}

/** What is around protected handlers, and may not be meant. */
export function placeWarnings(
  isOutermost: boolean | undefined,
  outside: readonly object[],
  routes: readonly ProtectedRoute[],
): string[] {
  if (isOutermost === true) {
    const names = outside.map(nameOfInterceptor);
    if (names.length === 0) return [];
    return [
      `With "isOutermost" of IdempotencyModule, these interceptors are still outside of it: ${names.join(', ')}. They see each replay and each rejected duplicate, and may answer in its place. If that is not meant, register them later: import IdempotencyModule before their modules, and move an APP_INTERCEPTOR of the root module to a module that is imported after IdempotencyModule. [interceptor_outside]`,
    ];
  }
  const isUnsaid = isOutermost === undefined && outside.some(isResilience);
  const resilient = isUnsaid ? routes.filter(({ facts }) => isResilient(facts)) : [];
  if (resilient.length === 0) return [];
  return [
    `@Idempotent() is inside of the interceptor of ResilienceModule on ${resilient.map(({ facts }) => facts.name).join(', ')}: an open circuit breaker or a full bulkhead rejects replays, too. Set "isOutermost": true beside "isGlobal" of IdempotencyModule, and import it before ResilienceModule; false says that this is meant. [resilience_outside]`,
  ];
}

/** The content of the form cannot be compared when its request arrives. */
function formParsedInside(route: ProtectedRoute): string | undefined {
  const { facts, transport, operation, options } = route;
  const { enabled, fingerprint } = options;
  const isCompared =
    enabled !== false && fingerprint !== false && typeof fingerprint !== 'function';
  if (transport !== 'http' || !isCompared || !facts.parsesFormsInside) return undefined;
  if (facts.isWithinGlobal) {
    return `The form of ${operation} is parsed inside of IdempotencyModule's interceptor, because its option "isOutermost" puts that around all others, and it cannot compare the content. Parse the form by middleware (multer(…).any()) in place of the file interceptor, or set the option "fingerprint" of the handler to a function.`;
  }
  return `The form of ${operation} is parsed inside IdempotencyInterceptor, which then cannot compare its content. Put the file interceptor (@UseInterceptors(FileInterceptor(…)) or the like) below @Idempotent() (decorators apply from the bottom up), or set the option "fingerprint" to a function.`;
}

/** Its own decorator is for requests of safe methods only. */
function withoutEffect(facts: HandlerFacts): string | undefined {
  const { options, isSafe, kinds } = facts;
  if (options === undefined || options.enabled === false) return undefined;
  if (!isSafe || kinds.some((kind) => kind !== 'http')) return undefined;
  return `@Idempotent() on ${locationOf(facts)} has no effect: requests of a safe method change nothing and are never protected. Remove it, or use POST for a request that has an effect.`;
}

/** Of a class or a handler. */
function decoratedTwice(facts: ClassFacts | HandlerFacts): string | undefined {
  if (!facts.hasOtherOptions) return undefined;
  return `@Idempotent() is on ${facts.name} more than once, with different options: the upper one counts, the others are ignored. Keep one of them.`;
}

/**
 * That a guard names no caller, or one that the library does not find, would go unnoticed where unknown callers share
 * one scope. Messages have a consumer instead.
 */
function sharedBehindGuard(route: ProtectedRoute): string | undefined {
  const { facts, transport, options } = route;
  const isShared = options.enabled !== false && options.caller?.anonymous === 'shared';
  if (transport === 'message' || !isShared || facts.guards.length === 0) return undefined;
  return `${locationOf(facts)} has a guard (${[...new Set(facts.guards)].join(', ')}) and the option "caller.anonymous": 'shared'. Requests that the guard lets through without a caller (an "id" or "sub" of their user, or what "caller.scope" returns) get each other's stored responses. Leave 'shared' out where the guard authenticates; keep it only on a public route whose responses any client may see.`;
}

/** A key that a client chose would give one client the value of another. A route refuses it, and so does `run()`. */
function unscopedKeys(routes: readonly ProtectedRoute[]): string[] {
  const unscoped = routes.filter(({ isUnscoped = false }) => isUnscoped);
  if (unscoped.length === 0) return [];
  return [
    `The option "key" takes a key from the arguments of ${unscoped.map(({ facts }) => locationOf(facts)).join(', ')}, and no option "scope" says whose key it is: if clients choose it, one that knows another's key gets the other's value. Set "scope" to a function of the arguments, such as ({ tenant }) => tenant, or to () => [] where no client chooses the key (the id of a job, of an event, of a row).`,
  ];
}

const SHORT_RETENTION_MS = 600_000;

/** Warnings of outcomes that are gone before a client has given up: often seconds were meant. */
function shortRetentions(routes: readonly ProtectedRoute[]): string[] {
  const short = new Map<number, string[]>();
  for (const { operation, options } of routes) {
    const { retention } = options.outcome;
    if (options.enabled === false || typeof retention !== 'number') continue;
    if (retention >= SHORT_RETENTION_MS) continue;
    short.set(retention, [...(short.get(retention) ?? []), operation]);
  }
  return [...short].map(
    ([retention, operations]) =>
      `The option "outcome.retention" of ${operations.join(', ')} is ${String(retention / 1_000)} s: a retry after that runs the operation again. Write it with its unit, such as '24h', and longer than any client retries.`,
  );
}

/** The warnings of an application, each once. */
export function warningsOf(
  classes: readonly ClassFacts[],
  routes: readonly ProtectedRoute[],
): ReadonlySet<string> {
  const methods = classes.flatMap((facts) => facts.methods);
  // Several classes may inherit a handler.
  const handlers = [...new Map(methods.map((facts) => [facts.handler, facts])).values()];
  return new Set([
    ...handlers.flatMap((facts) => withoutEffect(facts) ?? []),
    ...[...classes, ...handlers].flatMap((facts) => decoratedTwice(facts) ?? []),
    ...routes.flatMap((route) => sharedBehindGuard(route) ?? []),
    ...unscopedKeys(routes),
    ...shortRetentions(routes),
  ]);
}
