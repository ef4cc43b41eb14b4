import type { Type } from '@nestjs/common';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { isObject } from '../../core/util/option-checks.js';
import { isTestDouble } from './call-instances.js';
import { isHandler, kindsOf } from './handler-kinds.js';
import { reportedWrapper } from './handler-report.js';
import {
  entriesOf,
  entryOf,
  isIdempotencyInterceptor,
  reportsEntry,
  type Handler,
} from './idempotent.metadata.js';
import { interceptorsOf } from './serializers.js';

interface DeclaredHandler {
  readonly holder: object;
  readonly name: string | symbol;
  readonly entry: Handler;
  /** The present method; `undefined` if it is not a method any more. */
  readonly method: Handler | undefined;
}

const reporting = new WeakSet<Handler>();

/** Makes the wrappers around the handlers of a class report. Called before Nest scans it, after all its decorators. */
export function reportWrappers(prototype: object): void {
  for (const { holder, name, entry, method } of declaredHandlers(prototype)) {
    const isWrapper = method !== undefined && method !== entry && entryOf(method) === entry;
    if (!isWrapper || reporting.has(method)) continue;
    const value = reportedWrapper(method, entry);
    reporting.add(value);
    Reflect.defineProperty(holder, name, { value });
  }
}

/** @throws {@link IdempotencyOptionsError} for a handler replaced without its metadata: it would run unprotected. */
export function checkReached(type: Type, prototype: object): void {
  for (const { entry, method } of declaredHandlers(prototype)) {
    if (isReached(method)) continue;
    throw new IdempotencyOptionsError(
      `@Idempotent() on ${type.name}.${entry.name} has no effect: a decorator above it replaced the method without copying its metadata, so Nest would run it unprotected, or not find it. Put @Idempotent() above that decorator (decorators apply from the bottom up), or make the decorator copy the metadata (Reflect.getMetadataKeys, Reflect.defineMetadata).`,
    );
  }
}

/** @throws {@link IdempotencyOptionsError} for a handler that the instance replaces: it would run unprotected. */
export function checkInstance(instance: unknown, prototype: unknown): void {
  if (!isObject(instance) || !isObject(prototype)) return;
  for (const { name, entry, method } of declaredHandlers(prototype)) {
    checkResult(instance, prototype, name, entry, method);
  }
}

/** As {@link checkInstance}, for the called handler only: of a class that a protected method was copied to. */
export function checkCalled(instance: unknown, name: string | symbol, entry: Handler): void {
  if (!isObject(instance)) return;
  const prototype: unknown = Object.getPrototypeOf(instance);
  if (!isObject(prototype)) return;
  const method = prototype[name] as Handler | undefined;
  // Otherwise an override calls it.
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
    `@Idempotent() on ${type.name}.${entry.name} cannot protect it: the instance replaces "${entry.name}" of its class (this.${entry.name} = this.${entry.name}.bind(this), a getter, or a Proxy that the constructor returns), and Nest would run the replacement. Remove it; wrap the method with a decorator instead.`,
  );
}

/** What Nest would call, which may come from a getter or a trap. If one throws, it is not the method either. */
function resultOf(instance: Properties, name: string | symbol): unknown {
  try {
    return instance[name];
  } catch {
    return undefined;
  }
}

/** The idempotent handlers of a class, inherited ones included, except those that a derived class overrides. */
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
      // A method that is not a handler protects itself, whatever wraps it.
      const isDeclared = isHandler(entry) || (method !== undefined && isHandler(method));
      if (isDeclared) yield { holder, name, entry, method };
    }
  }
}

type Properties = Readonly<Record<string | symbol, unknown>>;

/** Nest takes a handler from the instance for HTTP and messages, and from the class otherwise. */
function isCalledOnInstance(method: Handler | undefined): boolean {
  return method !== undefined && kindsOf(method).some((kind) => kind === 'http' || kind === 'rpc');
}

/** Whether Nest finds the metadata of `@Idempotent()` on a method, or a test double replaces it. */
function isReached(method: Handler | undefined): boolean {
  if (method === undefined) return false;
  return (
    (reportsEntry(method) && interceptorsOf(method).some(isIdempotencyInterceptor)) ||
    isTestDouble(method)
  );
}
