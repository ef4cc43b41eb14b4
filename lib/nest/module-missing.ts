import type { Type } from '@nestjs/common';
import { ModuleRef, type ModulesContainer } from '@nestjs/core';
import { IdempotencyOptionsError } from '../core/util/errors.js';
import { isLayer } from './idempotent.metadata.js';
import { methodsBoundTo } from './routes/bound-interceptors.js';

type Module = ModulesContainer extends Map<string, infer Value> ? Value : never;

/**
 * What to say where a module with `@Idempotent()` in it does not see IdempotencyModule.
 *
 * @param ref - of the module that does not see it.
 * @param provided - by every IdempotencyModule.
 */
export function moduleMissing(
  modules: ModulesContainer,
  ref: ModuleRef,
  provided: Type,
): IdempotencyOptionsError {
  const all = [...modules.values()];
  const host = all.find(({ providers }) => providers.get(ModuleRef)?.instance === ref);
  const method = host && boundMethod(host);
  const name = host?.name ?? 'a module';
  const isElsewhere = all.some(({ providers }) => providers.has(provided));
  let where = 'import IdempotencyModule.forRoot({ … }) in the root module';
  if (isElsewhere) {
    where = `it is imported with isGlobal: false, where ${name} does not see it. Import it in ${name}, too, or leave "isGlobal" out`;
  } else if (all.some((module) => isOfAnotherCopy(module, provided))) {
    where =
      'the one that is imported comes from another copy of nestjs-idempotency, whose classes are others. Have one copy installed: npm ls nestjs-idempotency (pnpm why, yarn why) tells who brings the second, which happens where versions differ, or the peer dependencies of two packages of a workspace';
  }
  return new IdempotencyOptionsError(
    `@Idempotent()${method === undefined ? '' : ` on ${method}`} (module ${name}) has no IdempotencyModule: ${where}. In a test, import IdempotencyTestingModule.passThrough() from nestjs-idempotency/testing instead, to have it do nothing.`,
  );
}

/** By the classes' names: nothing else is the same. */
function isOfAnotherCopy({ metatype, providers }: Module, provided: Type): boolean {
  if (!metatype.name.startsWith('Idempotency')) return false;
  return [...providers.keys()].some(
    (token) => typeof token === 'function' && token.name === provided.name,
  );
}

/** The first method that the interceptor is bound to. */
function boundMethod({ controllers, providers }: Module): string | undefined {
  for (const { metatype } of [...controllers.values(), ...providers.values()]) {
    const prototype: unknown = typeof metatype === 'function' ? metatype.prototype : undefined;
    if (typeof prototype !== 'object' || prototype === null) continue;
    const [first] = methodsBoundTo(prototype, isLayer);
    if (first !== undefined) return `${(metatype as Type).name}.${first[0]}`;
  }
  return undefined;
}
