import type { Type } from '@nestjs/common';
import { IdempotencyOptionsError } from '../../core/errors.js';
import type { Handler } from '../../transports/http/http-route.js';
import { entriesOf, entryOf, isLayer, reportsEntry } from '../idempotent.metadata.js';
import { interceptorsOf } from './bound-interceptors.js';
import { reportedWrapper } from './handler-report.js';
import { isHandler, kindsOf } from './handler-kinds.js';

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
 * @param instance - Nest's own, where there is one for all requests.
 * @throws {@link IdempotencyOptionsError} for a handler that something else has taken the place of, without its metadata:
 * Nest would call it, and would not know that it is protected.
 */
export function checkReached(type: Type, prototype: object, instance: unknown): void {
  for (const { name, entry, method } of declaredHandlers(prototype)) {
    const own = ownMethod(instance, name);
    if (!isReached(method)) {
      throw new IdempotencyOptionsError(
        `@Idempotent() on ${type.name}.${entry.name} has no effect: a decorator above it has replaced the method and has not copied its metadata, so that Nest would run it unprotected, or not find it. Put @Idempotent() above that decorator, for decorators apply from the bottom; or let the decorator copy the metadata (Reflect.getMetadataKeys, Reflect.defineMetadata).`,
      );
    }
    if (own !== undefined && !isReached(own) && isCalledOnInstance(method)) {
      throw new IdempotencyOptionsError(
        `@Idempotent() on ${type.name}.${entry.name} has no effect: the instance has a method of its own of this name (this.${entry.name} = this.${entry.name}.bind(this), say), which Nest would run unprotected. Remove it, or copy the method's metadata to it (Reflect.getMetadataKeys, Reflect.defineMetadata).`,
      );
    }
  }
}

/** The handlers among a class' decorated methods, inherited ones included, those aside that a derived class overrides. */
function* declaredHandlers(prototype: object): Generator<DeclaredHandler> {
  const known = new Set<string | symbol>();
  for (
    let holder: object | null = prototype;
    holder !== null && holder !== Object.prototype;
    holder = Object.getPrototypeOf(holder) as object | null
  ) {
    for (const [name, entry] of entriesOf(holder)) {
      const descriptor = Object.getOwnPropertyDescriptor(holder, name);
      if (known.has(name) || descriptor === undefined) continue;
      const value: unknown = descriptor.value;
      const method = typeof value === 'function' ? value : undefined;
      // A method that handles no requests protects itself, whatever is around it.
      const isDeclared = isHandler(entry) || (method !== undefined && isHandler(method));
      if (isDeclared) yield { holder, name, entry, method };
    }
    for (const name of Reflect.ownKeys(holder)) known.add(name);
  }
}

function ownMethod(instance: unknown, name: string | symbol): Handler | undefined {
  if (typeof instance !== 'object' || instance === null) return undefined;
  const value: unknown = Object.getOwnPropertyDescriptor(instance, name)?.value;
  return typeof value === 'function' ? value : undefined;
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
  return (reportsEntry(method) && interceptorsOf(method).some(isLayer)) || isTestDouble(method);
}

/** Jest's, Vitest's and Node's mocks, and Sinon's. */
function isTestDouble(method: Handler): boolean {
  return 'mock' in method || 'isSinonProxy' in method;
}
