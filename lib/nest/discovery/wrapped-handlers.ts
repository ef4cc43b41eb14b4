import type { Type } from '@nestjs/common';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import type { Handler } from '../../transports/http/http-route.js';
import { METHOD_RUNNER, isTestDouble } from './call-instances.js';
import { isHandler, kindsOf } from './handler-kinds.js';
import { reportedWrapper } from './handler-report.js';
import {
  entriesOf,
  entryOf,
  isIdempotencyInterceptor,
  reportsEntry,
} from './idempotent.metadata.js';
import { interceptorsOf } from './serializers.js';

/** A handler as `@Idempotent()` left it, and where it stands now. */
interface DeclaredHandler {
  readonly holder: object;
  readonly name: string | symbol;
  readonly entry: Handler;
  /** What stands there; `undefined` where it is no method any more. */
  readonly method: Handler | undefined;
}

const reporting = new WeakSet<Handler>();

/**
 * Has what other decorators have put around the handlers of a class report its end. Called before Nest asks the class
 * for its handlers: nothing can be put around a method by a decorator of its own after those that stand above it.
 */
export function reportWrappers(prototype: object): void {
  for (const { holder, name, entry, method } of declaredHandlers(prototype)) {
    const isWrapper = method !== undefined && method !== entry && entryOf(method) === entry;
    if (!isWrapper || reporting.has(method)) continue;
    const value = reportedWrapper(method, entry);
    reporting.add(value);
    Reflect.defineProperty(holder, name, { value });
  }
}

/**
 * @throws {@link IdempotencyOptionsError} for a handler that something else has taken the place of, without its metadata:
 * Nest would call it, and would not know that it is protected.
 */
export function checkReached(type: Type, prototype: object): void {
  for (const { entry, method } of declaredHandlers(prototype)) {
    if (isReached(method)) continue;
    throw new IdempotencyOptionsError(
      `@Idempotent() on ${type.name}.${entry.name} has no effect: a decorator above it has replaced the method and has not copied its metadata, so that Nest would run it unprotected, or not find it. Put @Idempotent() above that decorator, for decorators apply from the bottom; or let the decorator copy the metadata (Reflect.getMetadataKeys, Reflect.defineMetadata).`,
    );
  }
}

/**
 * @param instance - whose methods Nest calls.
 * @throws {@link IdempotencyOptionsError} for a handler that the instance answers with something else than its class'
 * method: Nest would call it, unprotected, or as no part of the operation.
 */
export function checkInstance(instance: unknown, prototype: unknown): void {
  if (!isObject(instance) || !isObject(prototype)) return;
  for (const { name, entry, method } of declaredHandlers(prototype)) {
    checkResult(instance, prototype, name, entry, method);
  }
}

/**
 * As {@link checkInstance}, of the one handler that is called, where nothing could look at the instance before: on a
 * class that a protected method was copied to.
 */
export function checkCalled(instance: unknown, name: string | symbol, entry: Handler): void {
  if (!isObject(instance) || METHOD_RUNNER in instance) return;
  const prototype: unknown = Object.getPrototypeOf(instance);
  if (!isObject(prototype)) return;
  const method = prototype[name] as Handler | undefined;
  // Else it is called by what overrides it.
  if (entryOf(method) === entry) checkResult(instance, prototype, name, entry, method);
}

function checkResult(
  instance: Properties,
  prototype: Properties,
  name: string | symbol,
  entry: Handler,
  method: Handler | undefined,
): void {
  if (!isCalledOnInstance(method)) return;
  const result = resultOf(instance, name);
  if (result === method || (typeof result === 'function' && isTestDouble(result))) return;
  const type = prototype.constructor as Type;
  throw new IdempotencyOptionsError(
    `@Idempotent() on ${type.name}.${entry.name} cannot protect it: the instance answers "${entry.name}" with something else than its class' method (this.${entry.name} = this.${entry.name}.bind(this), a getter, or a Proxy that the constructor returns), and Nest would run that. Remove it; what is to stand around the method belongs on the method, as a decorator, and not on the instance.`,
  );
}

/** What Nest would call: a getter or a trap may answer. One that throws does not answer the method either. */
function resultOf(instance: Properties, name: string | symbol): unknown {
  try {
    return instance[name];
  } catch {
    return undefined;
  }
}

/** The handlers among a class' decorated methods, inherited ones included, those aside that a derived class overrides. */
function* declaredHandlers(prototype: object): Generator<DeclaredHandler> {
  const known = new Set<string | symbol>(['constructor']);
  for (
    let holder: object | null = prototype;
    holder !== null && holder !== Object.prototype;
    holder = Object.getPrototypeOf(holder) as object | null
  ) {
    for (const name of Reflect.ownKeys(holder)) {
      if (known.has(name)) continue;
      known.add(name);
      const value: unknown = Object.getOwnPropertyDescriptor(holder, name)?.value;
      const method = typeof value === 'function' ? value : undefined;
      // By the method where it was decorated elsewhere: mixins copy methods from another class.
      const entry = entriesOf(holder).get(name) ?? entryOf(method);
      if (entry === undefined) continue;
      // A method that handles no requests protects itself, whatever is around it.
      const isDeclared = isHandler(entry) || (method !== undefined && isHandler(method));
      if (isDeclared) yield { holder, name, entry, method };
    }
  }
}

type Properties = Readonly<Record<string | symbol, unknown>>;

function isObject(value: unknown): value is Properties {
  return typeof value === 'object' && value !== null;
}

/** Nest takes a handler from the instance for HTTP and for messages, and from the class elsewhere. */
function isCalledOnInstance(method: Handler | undefined): boolean {
  return (
    method !== undefined && kindsOf(method).some((kind) => kind === 'http' || kind === 'message')
  );
}

/** Whether Nest finds what `@Idempotent()` has noted on a method, or a test has taken its place. */
function isReached(method: Handler | undefined): boolean {
  if (method === undefined) return false;
  return (
    (reportsEntry(method) && interceptorsOf(method).some(isIdempotencyInterceptor)) ||
    isTestDouble(method)
  );
}
