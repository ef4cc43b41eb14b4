import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import type { Handler } from '../../transports/http/http-route.js';

/** The interceptors that are bound to a method or to a class by decorators, the outer ones first. */
export function interceptorsOf(target: Handler): object[] {
  return (Reflect.getMetadata(INTERCEPTORS_METADATA, target) ?? []) as object[];
}
