import { Injectable, type Type } from '@nestjs/common';
import { ApplicationConfig, DiscoveryService } from '@nestjs/core';
import {
  readClass,
  readHandler,
  type ClassFacts,
  type HandlerFacts,
  type Surroundings,
} from '../discovery/handler-facts.js';
import type { Handler } from '../discovery/idempotent.metadata.js';

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** A controller or provider, with its instances: one for each of its modules. */
export interface HostClass extends ClassFacts {
  readonly hosts: readonly InstanceWrapper[];
}

/** The global interceptors of all IdempotencyModules. */
const outermost = new WeakSet();

/** The classes of the application that may have handlers, and what is known of them. */
@Injectable()
export class HostClasses {
  private outermost: object | undefined;
  private scanned: ReadonlyMap<Type, HostClass> = new Map();

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly application: ApplicationConfig,
  ) {}

  /** Called by the global interceptor of this IdempotencyModule, if it has one. */
  setOutermost(interceptor: object): void {
    outermost.add(interceptor);
    this.outermost = interceptor;
  }

  types(): Type[] {
    return [...byType(this.wrappers()).keys()];
  }

  controllers(): HostClass[] {
    return this.read(this.discovery.getControllers());
  }

  /** Reads all of them anew. */
  scan(): HostClass[] {
    const all = this.read(this.wrappers());
    this.scanned = new Map(all.map((host) => [host.type, host]));
    return all;
  }

  /** As the last scan found it; else read now. */
  handler(type: Type, handler: Handler): HandlerFacts {
    const known = this.scanned.get(type)?.methods.find((facts) => facts.handler === handler);
    if (known !== undefined) return known;
    const hosts = this.wrappers().filter(({ metatype }) => metatype === type);
    return readHandler(type, handler, this.surroundingsOf(hosts));
  }

  /** What is bound to all handlers of the application. */
  globals(): Omit<Surroundings, 'modules'> {
    const { application } = this;
    const interceptors: object[] = [
      ...application.getGlobalInterceptors(),
      ...application.getGlobalRequestInterceptors().flatMap(({ metatype }) => metatype ?? []),
    ];
    const index = this.outermost === undefined ? -1 : interceptors.indexOf(this.outermost);
    return {
      // That of another IdempotencyModule passes on what is not its own.
      outside: (index < 0 ? interceptors : interceptors.slice(0, index)).filter(
        (each) => !outermost.has(each),
      ),
      inside: index < 0 ? undefined : interceptors.slice(index + 1),
      guards: [
        ...application.getGlobalGuards(),
        ...application.getGlobalRequestGuards().flatMap(({ metatype }) => metatype ?? []),
      ],
    };
  }

  /** Without allocations, for each request: one may become global later. */
  hasGlobalInterceptors(): boolean {
    const { application } = this;
    return (
      application.getGlobalInterceptors().length > 0 ||
      application.getGlobalRequestInterceptors().length > 0
    );
  }

  private wrappers(): InstanceWrapper[] {
    return [...this.discovery.getControllers(), ...this.discovery.getProviders()];
  }

  private read(wrappers: readonly InstanceWrapper[]): HostClass[] {
    return [...byType(wrappers)].map(([type, hosts]) => ({
      ...readClass(type, this.surroundingsOf(hosts)),
      hosts,
    }));
  }

  private surroundingsOf(hosts: readonly InstanceWrapper[]): Surroundings {
    const names = hosts.map(({ host }) => host?.name ?? 'no module');
    return { ...this.globals(), modules: [...new Set(names)] };
  }
}

function byType(wrappers: readonly InstanceWrapper[]): Map<Type, InstanceWrapper[]> {
  const grouped = new Map<Type, InstanceWrapper[]>();
  for (const wrapper of wrappers) {
    const type = wrapper.metatype as Type | undefined;
    // A factory's function may have no prototype.
    if (type?.prototype === undefined) continue;
    const hosts = grouped.get(type);
    if (hosts === undefined) grouped.set(type, [wrapper]);
    else hosts.push(wrapper);
  }
  return grouped;
}
