import type { DiscoveryService } from '@nestjs/core';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { idempotentMethods } from './handler-kinds.js';

/** Where an instance finds what runs its protected methods: its own application's, of the module that its class is in. */
export const METHOD_RUNNER = Symbol('nestjs-idempotency:calls');

/**
 * Nest injects nothing into what a factory makes, and into what is given to it.
 *
 * @throws {@link IdempotencyOptionsError} for an instance whose protected methods could not be called.
 */
export function checkInstances(providers: ReturnType<DiscoveryService['getProviders']>): void {
  for (const provider of providers) {
    const isMadeFromClass = typeof provider.metatype === 'function' && !provider.inject;
    const instance: unknown = isMadeFromClass ? undefined : provider.instance;
    if (typeof instance !== 'object' || instance === null) continue;
    const prototype: unknown = Object.getPrototypeOf(instance);
    const entries = typeof prototype === 'object' && prototype ? idempotentMethods(prototype) : [];
    const entry = entries.find(({ name }) => !isDoubled(instance, name));
    // In this order: a Proxy of the application is asked as little as possible.
    if (entry === undefined || hasMethodRunner(instance)) continue;
    throw new IdempotencyOptionsError(
      `${instance.constructor.name}.${entry.name} has @Idempotent(), and its instance comes from useFactory or useValue, where nothing leads it to its store: have Nest make it, by useClass or as a class among the providers, or use IdempotencyService.run() in it.`,
    );
  }
}

/** Whether a test has put a mock in a method's place: it needs no store. */
function isDoubled(instance: object, name: string): boolean {
  const own: unknown = Object.getOwnPropertyDescriptor(instance, name)?.value;
  return typeof own === 'function' && isTestDouble(own);
}

/** Whether Nest has made it: a class has the property, too, through which its instances are given it. */
export function hasMethodRunner(instance: { readonly [METHOD_RUNNER]?: unknown }): boolean {
  return instance[METHOD_RUNNER] !== undefined;
}

/** Whether a method is a mock of Jest, Vitest or Node, or one of Sinon's. */
export function isTestDouble(method: object): boolean {
  return 'mock' in method || 'isSinonProxy' in method;
}
