import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { MetadataScanner } from '@nestjs/core';
import type { Handler } from '../../transports/http/http-route.js';

/** The interceptors that are bound to a method or to a class by decorators, the outer ones first. */
export function interceptorsOf(target: Handler): object[] {
  return (Reflect.getMetadata(INTERCEPTORS_METADATA, target) ?? []) as object[];
}

/** The methods of a class, inherited ones included, that have an interceptor of this kind bound to themselves. */
export function methodsBoundTo(
  prototype: object,
  isMeant: (bound: object) => boolean,
): [name: string, method: Handler][] {
  const methods = prototype as Readonly<Record<string, Handler>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.flatMap((name) => {
    const method = methods[name];
    return method !== undefined && interceptorsOf(method).some(isMeant) ? [[name, method]] : [];
  });
}
