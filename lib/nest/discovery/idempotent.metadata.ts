import { isDeepStrictEqual } from 'node:util';
import type { IdempotencyOptions } from '../options/idempotency-options.js';

/** A handler or another method of a class, as Nest has it. Only its name and metadata are read. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-function-type -- Nest's type
export type Handler = Function;

const OPTIONS = 'nestjs-idempotency:options';
const OTHER_OPTIONS = 'nestjs-idempotency:other-options';

export function setIdempotentOptions(target: object, options: IdempotencyOptions): void {
  const before = Reflect.getOwnMetadata(OPTIONS, target) as IdempotencyOptions | undefined;
  if (before !== undefined && !isDeepStrictEqual(before, options)) {
    Reflect.defineMetadata(OTHER_OPTIONS, true, target);
  }
  Reflect.defineMetadata(OPTIONS, options, target);
}

/** The options of `@Idempotent()`; `undefined` where the decorator is absent. */
export function idempotentOptions(target: object): IdempotencyOptions | undefined {
  return Reflect.getMetadata(OPTIONS, target) as IdempotencyOptions | undefined;
}

/** Whether `@Idempotent()` was applied twice with different options. The upper one, which is applied last, counts. */
export function hasOtherOptions(target: object): boolean {
  return Reflect.hasOwnMetadata(OTHER_OPTIONS, target);
}

const REPORTS_ENTRY = 'nestjs-idempotency:reports-entry';
const ENTRIES = 'nestjs-idempotency:entries';

type Entries = Map<string | symbol, Handler>;

/** Marks a method as reporting, on itself, for decorators that copy metadata, and on its class. */
export function markReportingEntry(
  method: Handler,
  prototype: object,
  name: string | symbol,
): void {
  Reflect.defineMetadata(REPORTS_ENTRY, method, method);
  const entries = (Reflect.getOwnMetadata(ENTRIES, prototype) ?? new Map()) as Entries;
  Reflect.defineMetadata(ENTRIES, entries.set(name, method), prototype);
}

/** Whether a method reports when it is entered, as `@Idempotent()` makes it. */
export function reportsEntry(method: object): boolean {
  return Reflect.hasMetadata(REPORTS_ENTRY, method);
}

/** The reporting function of a method: the method itself, or the one inside its wrappers. */
export function entryOf(method: object | undefined): Handler | undefined {
  return method && (Reflect.getMetadata(REPORTS_ENTRY, method) as Handler | undefined);
}

/** The idempotent methods that a class itself declares, as `@Idempotent()` made them. */
export function entriesOf(prototype: object): ReadonlyMap<string | symbol, Handler> {
  return (Reflect.getOwnMetadata(ENTRIES, prototype) ?? new Map()) as Entries;
}

const IDEMPOTENCY_INTERCEPTOR = 'nestjs-idempotency:interceptor';

export function markIdempotencyInterceptor(interceptor: object): void {
  Reflect.defineMetadata(IDEMPOTENCY_INTERCEPTOR, true, interceptor);
}

export function isIdempotencyInterceptor(interceptor: object): boolean {
  const type: unknown = typeof interceptor === 'function' ? interceptor : interceptor.constructor;
  return typeof type === 'function' && Reflect.hasMetadata(IDEMPOTENCY_INTERCEPTOR, type);
}
