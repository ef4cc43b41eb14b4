import type { Type } from '@nestjs/common';
import { SELF_DECLARED_DEPS_METADATA } from '@nestjs/common/constants.js';
import { isIdempotencyInterceptor, type Handler } from './idempotent.metadata.js';
import { interceptorsOf } from './serializers.js';

/** Whether Nest's `FileInterceptor` or the like parses a form inside IdempotencyInterceptor: too late to compare it. */
export function parsesFormsInside(handler: Handler): boolean {
  const interceptors = interceptorsOf(handler);
  const ownIndex = interceptors.findIndex(isIdempotencyInterceptor);
  return ownIndex >= 0 && interceptors.slice(ownIndex + 1).some(parsesForms);
}

/** Whether one is bound outside IdempotencyInterceptor, to the method or its class, and parses requests first. */
export function parsesFormsOutside(controller: Type, handler: Handler): boolean {
  const interceptors = interceptorsOf(handler);
  const outside = interceptors.slice(
    0,
    Math.max(0, interceptors.findIndex(isIdempotencyInterceptor)),
  );
  return [...interceptorsOf(controller), ...outside].some(parsesForms);
}

/** The injection token of these interceptors, which are anonymous classes. Only they inject it. */
const MULTER_OPTIONS = 'MULTER_MODULE_OPTIONS';

function parsesForms(interceptor: object): boolean {
  const type = typeof interceptor === 'function' ? interceptor : interceptor.constructor;
  const asked = Reflect.getMetadata(SELF_DECLARED_DEPS_METADATA, type) as
    { readonly param: unknown }[] | undefined;
  return (asked ?? []).some(({ param }) => param === MULTER_OPTIONS);
}
