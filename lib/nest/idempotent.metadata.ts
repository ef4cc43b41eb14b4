import type { Handler } from '../transports/http/http-route.js';
import type { IdempotencyOptions } from './idempotency-options.js';

const OPTIONS = 'nestjs-idempotency:options';

/** Notes what `@Idempotent()` was given on a controller or a method. */
export function setIdempotentOptions(target: object, options: IdempotencyOptions): void {
  Reflect.defineMetadata(OPTIONS, options, target);
}

/** What `@Idempotent()` was given, or `undefined` where it does not stand. */
export function idempotentOptions(target: object): IdempotencyOptions | undefined {
  return Reflect.getMetadata(OPTIONS, target) as IdempotencyOptions | undefined;
}

const REPORTS_ENTRY = 'nestjs-idempotency:reports-entry';

/** Notes that a method says when it is reached. */
export function markReportingEntry(method: Handler): void {
  // Itself: decorators that put something around it hand on what was noted.
  Reflect.defineMetadata(REPORTS_ENTRY, method, method);
}

/** Whether a method says when it is reached; one that `@Idempotent()` has not seen does not. */
export function reportsEntry(method: object): boolean {
  return Reflect.hasMetadata(REPORTS_ENTRY, method);
}

/** What says when a method is reached: the method itself, or what other decorators have put something around. */
export function entryOf(method: object): Handler | undefined {
  return Reflect.getMetadata(REPORTS_ENTRY, method) as Handler | undefined;
}

const LAYER = 'nestjs-idempotency:layer';

/** Notes that an interceptor is the layer itself. */
export function markLayer(interceptor: object): void {
  Reflect.defineMetadata(LAYER, true, interceptor);
}

/** Whether an interceptor, as it is bound to a route, is the layer itself. */
export function isLayer(interceptor: object): boolean {
  return Reflect.hasMetadata(LAYER, interceptor);
}
