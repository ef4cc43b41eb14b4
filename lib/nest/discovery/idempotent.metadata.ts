import { isDeepStrictEqual } from 'node:util';
import type { Handler } from '../../transports/http/http-route.js';
import type { IdempotencyOptions } from '../options/idempotency-options.js';

const OPTIONS = 'nestjs-idempotency:options';
const OTHER_OPTIONS = 'nestjs-idempotency:other-options';

/** Notes what `@Idempotent()` was given on a controller or a method. */
export function setIdempotentOptions(target: object, options: IdempotencyOptions): void {
  const before = Reflect.getOwnMetadata(OPTIONS, target) as IdempotencyOptions | undefined;
  if (before !== undefined && !isDeepStrictEqual(before, options)) {
    Reflect.defineMetadata(OTHER_OPTIONS, true, target);
  }
  Reflect.defineMetadata(OPTIONS, options, target);
}

/** What `@Idempotent()` was given, or `undefined` where it does not stand. */
export function idempotentOptions(target: object): IdempotencyOptions | undefined {
  return Reflect.getMetadata(OPTIONS, target) as IdempotencyOptions | undefined;
}

/** Whether `@Idempotent()` stands there more than once, with different options: the last applied, the upper one, counts. */
export function hasOtherOptions(target: object): boolean {
  return Reflect.hasOwnMetadata(OTHER_OPTIONS, target);
}

const REPORTS_ENTRY = 'nestjs-idempotency:reports-entry';
const ENTRIES = 'nestjs-idempotency:entries';

type Entries = Map<string | symbol, Handler>;

/** Notes that a method says when it is reached: on itself, for what hands on its metadata, and on its class. */
export function markReportingEntry(
  method: Handler,
  prototype: object,
  name: string | symbol,
): void {
  Reflect.defineMetadata(REPORTS_ENTRY, method, method);
  const entries = (Reflect.getOwnMetadata(ENTRIES, prototype) ?? new Map()) as Entries;
  Reflect.defineMetadata(ENTRIES, entries.set(name, method), prototype);
}

/** Whether a method says when it is reached; one that `@Idempotent()` has not seen does not. */
export function reportsEntry(method: object): boolean {
  return Reflect.hasMetadata(REPORTS_ENTRY, method);
}

/** What says when a method is reached: the method itself, or what other decorators have put something around. */
export function entryOf(method: object | undefined): Handler | undefined {
  return method && (Reflect.getMetadata(REPORTS_ENTRY, method) as Handler | undefined);
}

/** The methods of a class, and of no other, that `@Idempotent()` stands on, as it left them. */
export function entriesOf(prototype: object): ReadonlyMap<string | symbol, Handler> {
  return (Reflect.getOwnMetadata(ENTRIES, prototype) ?? new Map()) as Entries;
}

const IDEMPOTENCY_INTERCEPTOR = 'nestjs-idempotency:layer';

/** Notes that an interceptor is the layer itself. */
export function markIdempotencyInterceptor(interceptor: object): void {
  Reflect.defineMetadata(IDEMPOTENCY_INTERCEPTOR, true, interceptor);
}

/** Whether an interceptor, as it is bound to a route, is IdempotencyInterceptor: the class, or an instance. */
export function isIdempotencyInterceptor(interceptor: object): boolean {
  const type: unknown = typeof interceptor === 'function' ? interceptor : interceptor.constructor;
  return typeof type === 'function' && Reflect.hasMetadata(IDEMPOTENCY_INTERCEPTOR, type);
}
