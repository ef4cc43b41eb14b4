import { Injectable, type Type } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { handlerNames, isCoveredByClass, requestsOf } from '../discovery/handler-kinds.js';
import { entryOf, idempotentOptions, type Handler } from '../discovery/idempotent.metadata.js';

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** A controller or provider. */
export interface HostClass {
  readonly type: Type;
  readonly prototype: Readonly<Record<string, Handler>>;
  readonly instance: unknown;
  readonly module: InstanceWrapper['host'];
}

/** The classes of the application that may have handlers, once for each of their modules. */
@Injectable()
export class HostClasses {
  constructor(private readonly discovery: DiscoveryService) {}

  controllers(): HostClass[] {
    return this.discovery.getControllers().flatMap(hostClass);
  }

  all(): HostClass[] {
    return [...this.controllers(), ...this.discovery.getProviders().flatMap(hostClass)];
  }

  /** The names of the modules that have a class. */
  modulesOf(type: Type): (string | undefined)[] {
    return this.all().flatMap((one) => (one.type === type ? [one.module?.name] : []));
  }

  /** Where the application declares a handler, for messages. */
  locationOf(type: Type, handler: Handler): string {
    const modules = new Set(this.modulesOf(type).map((name) => name ?? 'no module'));
    const where = [...requestsOf(type, handler), `in ${[...modules].join(' and ')}`];
    return `${nameOf(type, handler)} (${where.join(', ')})`;
  }
}

function hostClass({ metatype, instance, host }: InstanceWrapper): HostClass[] {
  if (typeof metatype !== 'function') return [];
  const type = metatype as Type;
  // Undefined for a factory's function.
  const prototype = type.prototype as HostClass['prototype'] | undefined;
  return prototype === undefined ? [] : [{ type, prototype, instance, module: host }];
}

export function handlersOf({ prototype }: HostClass): Handler[] {
  return handlerNames(prototype).flatMap((name) => prototype[name] ?? []);
}

/** The handlers that have `@Idempotent()`, or whose class has it. */
export function protectedHandlers(host: HostClass): Handler[] {
  return handlersOf(host).filter((handler) => isProtected(host.type, handler));
}

/** Whether it, or its class, has `@Idempotent()`. */
export function isProtected(type: Type, handler: Handler): boolean {
  if (idempotentOptions(handler) !== undefined) return true;
  return idempotentOptions(type) !== undefined && isCoveredByClass(type, handler);
}

export function nameOf(type: Type, handler: Handler): string {
  // A wrapper may have another name.
  return `${type.name}.${(entryOf(handler) ?? handler).name}`;
}
