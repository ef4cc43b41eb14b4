import type { Type } from '@nestjs/common';
import type { DiscoveryService } from '@nestjs/core';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { isObject } from '../../core/options/option-checks.js';
import { idempotentMethods, isTestDouble, membersOf } from './handler-facts.js';
import { entryOf, type Handler } from './idempotent.metadata.js';
import { kindsOf } from './nest-metadata.js';

/** The property by which an instance finds its {@link IdempotentMethods}, those of its class' module. */
export const METHOD_RUNNER = Symbol('nestjs-idempotency:method-runner');

/** @throws {@link IdempotencyOptionsError} for methods of `useFactory` or `useValue`: Nest injects no store. */
export function checkInstances(providers: ReturnType<DiscoveryService['getProviders']>): void {
  for (const provider of providers) {
    const isMadeFromClass = typeof provider.metatype === 'function' && !provider.inject;
    const instance: unknown = isMadeFromClass ? undefined : provider.instance;
    if (typeof instance !== 'object' || instance === null) continue;
    const prototype: unknown = Object.getPrototypeOf(instance);
    const entries = typeof prototype === 'object' && prototype ? idempotentMethods(prototype) : [];
    const entry = entries.find(({ name }) => !isDoubled(instance, name));
    // In this order, to touch a Proxy of the application as little as possible.
    if (entry === undefined || hasMethodRunner(instance)) continue;
    throw new IdempotencyOptionsError(
      `${instance.constructor.name}.${entry.name} has @Idempotent(), but its instance comes from useFactory or useValue and has no store. List the class itself among the providers, or use useClass, or call IdempotencyService.run() in the method.`,
    );
  }
}

/** Whether a test has replaced the method with a mock, which needs no store. */
function isDoubled(instance: object, name: string): boolean {
  const own: unknown = Object.getOwnPropertyDescriptor(instance, name)?.value;
  return typeof own === 'function' && isTestDouble(own);
}

/** Whether Nest has injected the runner. The prototype has the property, too, as `undefined`. */
export function hasMethodRunner(instance: { readonly [METHOD_RUNNER]?: unknown }): boolean {
  return instance[METHOD_RUNNER] !== undefined;
}

/** @throws {@link IdempotencyOptionsError} for a handler that the instance replaces: it would run unprotected. */
export function checkInstance(instance: unknown, prototype: unknown): void {
  if (!isObject(instance) || !isObject(prototype)) return;
  for (const { property, entry, method } of membersOf(prototype)) {
    if (entry !== undefined) checkResult(instance, prototype, property, entry, method);
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

type Properties = Readonly<Record<string | symbol, unknown>>;

/** Nest takes a handler from the instance for HTTP and messages, and from the class otherwise. */
function isCalledOnInstance(method: Handler | undefined): boolean {
  return method !== undefined && kindsOf(method).some((kind) => kind === 'http' || kind === 'rpc');
}
