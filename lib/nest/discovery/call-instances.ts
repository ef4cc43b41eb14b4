import type { DiscoveryService } from '@nestjs/core';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { idempotentMethods } from './handler-kinds.js';

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

export function isTestDouble(method: object): boolean {
  return 'mock' in method || 'isSinonProxy' in method;
}
