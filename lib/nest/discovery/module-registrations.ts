import type { DynamicModule, ForwardReference, Type } from '@nestjs/common';
import { ModuleRef, type ModulesContainer } from '@nestjs/core';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { readClass } from './handler-facts.js';

type Import = Type | DynamicModule | ForwardReference | Promise<DynamicModule>;
type NestModule = ModulesContainer extends Map<string, infer Value> ? Value : never;

const REMEDY =
  'Call forRoot() or forRootAsync() once, in the root module. Pass the options of one operation to @Idempotent(). If parts of the application need different stores, set `isGlobal: false` on each module and import it where it is needed.';

/**
 * @param provider - a provider of IdempotencyModule alone.
 * @throws {@link IdempotencyOptionsError} if two are global, or one module imports two.
 */
export function checkRegistrations(modules: ModulesContainer, provider: Type): void {
  const all = [...modules.values()];
  const own = all.filter(({ providers }) => providers.has(provider));
  const globals = own.filter(({ isGlobal }) => isGlobal);
  if (globals.length > 1) {
    const importers = own.flatMap(({ metatype }) => importersOf(metatype, all));
    const names = [...new Set(importers)];
    const places = names.length > 0 ? `, by ${names.join(' and ')}` : '';
    throw new IdempotencyOptionsError(
      `IdempotencyModule is registered globally ${String(globals.length)} times${places}, each time with its own options and store; only one of them would be used. ${REMEDY}`,
    );
  }
  const torn = all.find(
    ({ imports }) => own.filter((one) => !one.isGlobal && imports.has(one)).length > 1,
  );
  if (torn !== undefined) {
    throw new IdempotencyOptionsError(
      `${torn.metatype.name} imports IdempotencyModule more than once, each time with its own options and store; only one of them would be used. ${REMEDY}`,
    );
  }
}

/** The names of the modules that import it, as their decorators say. */
function importersOf(imported: unknown, all: readonly NestModule[]): string[] {
  return all.flatMap(({ metatype }) => {
    const imports = (Reflect.getMetadata('imports', metatype) ?? []) as readonly Import[];
    return namesIn(metatype.name, imports, imported);
  });
}

function namesIn(name: string, imports: readonly Import[], imported: unknown): string[] {
  return imports.flatMap((each) => {
    const entry: unknown = isReference(each) ? each.forwardRef() : each;
    if (!isDynamic(entry)) return [];
    const within = namesIn(entry.module.name, (entry.imports ?? []) as readonly Import[], imported);
    return entry.module === imported ? [name, ...within] : within;
  });
}

function isReference(entry: object): entry is ForwardReference<() => unknown> {
  return 'forwardRef' in entry;
}

function isDynamic(entry: unknown): entry is DynamicModule {
  return typeof entry === 'object' && entry !== null && 'module' in entry;
}

/** The error for a module with `@Idempotent()` that does not see IdempotencyModule. */
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
    where = `it is imported with isGlobal: false, where ${name} does not see it. Import it in ${name}, too, or remove "isGlobal"`;
  } else if (all.some((module) => isOfAnotherCopy(module, provided))) {
    where =
      'the imported one comes from another copy of nestjs-idempotency, whose classes differ. Install one copy only: npm ls nestjs-idempotency (pnpm why, yarn why) shows where the second comes from, usually from different versions, or from peer dependencies of two packages of a workspace';
  }
  return new IdempotencyOptionsError(
    `@Idempotent()${method === undefined ? '' : ` on ${method}`} (module ${name}) has no IdempotencyModule: ${where}. In a test, import IdempotencyTestingModule.passThrough() from nestjs-idempotency/testing instead, which turns it off.`,
  );
}

/** Compares class names: two copies have different classes of the same name. */
function isOfAnotherCopy({ metatype, providers }: NestModule, provided: Type): boolean {
  if (!metatype.name.startsWith('Idempotency')) return false;
  return [...providers.keys()].some(
    (token) => typeof token === 'function' && token.name === provided.name,
  );
}

/** The first method that the interceptor is bound to. */
function boundMethod({ controllers, providers }: NestModule): string | undefined {
  for (const { metatype } of [...controllers.values(), ...providers.values()]) {
    if (typeof metatype !== 'function' || metatype.prototype === undefined) continue;
    const bound = readClass(metatype as Type).methods.find(({ isBound }) => isBound);
    if (bound !== undefined) return bound.name;
  }
  return undefined;
}
