import type { Type } from '@nestjs/common';
import { SELF_DECLARED_DEPS_METADATA } from '@nestjs/common/constants.js';
import type { Handler } from '../../transports/http/http-route.js';
import { isIdempotencyInterceptor } from './idempotent.metadata.js';
import { interceptorsOf } from './serializers.js';

/**
 * Whether an interceptor of Nest's that parses a form (`FileInterceptor` and its like) is bound to the
 * method inside of the layer, where the form's content cannot be compared any more. No other can have
 * parsed it before: a form is read once.
 */
export function parsesFormsInside(handler: Handler): boolean {
  const interceptors = interceptorsOf(handler);
  const ownIndex = interceptors.findIndex(isIdempotencyInterceptor);
  return ownIndex >= 0 && interceptors.slice(ownIndex + 1).some(parsesForms);
}

/** Whether one is bound outside of the layer, to the method or to its class: it has seen every request that the layer sees. */
export function parsesFormsOutside(controller: Type, handler: Handler): boolean {
  const interceptors = interceptorsOf(handler);
  const outside = interceptors.slice(
    0,
    Math.max(0, interceptors.findIndex(isIdempotencyInterceptor)),
  );
  return [...interceptorsOf(controller), ...outside].some(parsesForms);
}

/** What those interceptors ask for, and nothing else does: they are classes made on the spot, without a name. */
const MULTER_OPTIONS = 'MULTER_MODULE_OPTIONS';

function parsesForms(interceptor: object): boolean {
  const type = typeof interceptor === 'function' ? interceptor : interceptor.constructor;
  const asked = Reflect.getMetadata(SELF_DECLARED_DEPS_METADATA, type) as
    { readonly param: unknown }[] | undefined;
  return (asked ?? []).some(({ param }) => param === MULTER_OPTIONS);
}
